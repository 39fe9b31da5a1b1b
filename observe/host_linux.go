package observe

import "github.com/prometheus/procfs"

// readHost reads /proc. It returns nil without /proc, and omits what is missing there.
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

// note stores a figure that was found.
func (h *host) note(which tcpFigure, v *float64) {
	if v != nil {
		h.tcp[which] = *v
	}
}
