"""Client and reader of honed, a durable message gateway."""
from .client import Client
from .reader import FIRST, NEXT, NUMBER, STORED, TIME, Batch, Position, Reader, Record
from .wire import Refused

__all__ = ["Client", "Reader", "Batch", "Record", "Position", "Refused", "STORED", "FIRST", "NEXT", "TIME", "NUMBER"]
