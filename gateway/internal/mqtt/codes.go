package mqtt

// Version is a version of the protocol, as CONNECT has it.
type Version uint8

// The versions that Parse reads.
const (
	V311 Version = 4
	V5   Version = 5
)

// Type is what a packet is.
type Type uint8

// The types.
const (
	Connect Type = 1 + iota
	Connack
	Publish
	Puback
	Pubrec
	Pubrel
	Pubcomp
	Subscribe
	Suback
	Unsubscribe
	Unsuback
	Pingreq
	Pingresp
	Disconnect
	Auth
)

// Code is a reason code of version 5.
type Code uint8

// The codes that a server of this kind sends, or is sent.
const (
	Success             Code = 0x00
	WithWill            Code = 0x04 // of a client that disconnects
	NoSubscription      Code = 0x11
	Unspecified         Code = 0x80
	Malformed           Code = 0x81
	ProtocolError       Code = 0x82
	NotAccepted         Code = 0x83 // as this server decides
	BadVersion          Code = 0x84
	BadClient           Code = 0x85
	NotAuthorised       Code = 0x87
	Unavailable         Code = 0x88
	ShuttingDown        Code = 0x8b
	BadMethod           Code = 0x8c
	KeepAliveTimeout    Code = 0x8d
	TakenOver           Code = 0x8e
	BadTopic            Code = 0x90
	UnknownID           Code = 0x92
	TooManyInFlight     Code = 0x93
	BadAlias            Code = 0x94
	TooLarge            Code = 0x95
	NoRoom              Code = 0x97
	AdministratorsOrder Code = 0x98
	NoRetain            Code = 0x9a
)

// Fault is why a packet is refused, and its connection ended.
type Fault struct {
	Code Code
	What string
}

// Error says what is wrong.
func (f *Fault) Error() string { return "mqtt: " + f.What }
