package observe

import "github.com/prometheus/procfs"

// readHost reads /proc; nil where it is not there, and without what it lacks.
func readHost() *host {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return nil
	}
	h := &host{cores: map[int64]core{}, tcp: map[tcpFigure]float64{}}
	if stat, err := proc.Stat(); err == nil {
		for id, c := range stat.CPU {
			h.cores[id] = core{
				busy:    c.User + c.Nice + c.System + c.IRQ + c.SoftIRQ,
				softirq: c.SoftIRQ,
				steal:   c.Steal,
			}
		}
	}
	self, err := proc.Self()
	if err != nil {
		return h
	}
	if snmp, err := self.Snmp(); err == nil {
		h.note(segmentsSent, snmp.OutSegs)
		h.note(segmentsRetransmitted, snmp.RetransSegs)
	}
	if netstat, err := self.Netstat(); err == nil {
		h.note(listenOverflows, netstat.ListenOverflows)
	}
	return h
}

// note keeps a figure that was there.
func (h *host) note(which tcpFigure, v *float64) {
	if v != nil {
		h.tcp[which] = *v
	}
}
