package gateway

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/gateway/internal/mqtt"
	"github.com/hone-go/hone/gateway/journal"
)

// publishing is a post of one record that came as a PUBLISH.
type publishing struct {
	post
	conn    *mqttConn
	reply   engine.Reply // owed, if isOwed
	answers mqtt.Type    // the packet that answers; 0: none
	packet  uint16

	isOwed bool // else it is told by the visit that has brought it
	record [1]content
	said   [3]journal.Attribute
}

// begin sets what a message has.
func (u *publishing) begin(c *mqttConn, m *mqtt.Message) {
	u.conn, u.client, u.link, u.done = c, c.client, &c.link, u.tell
	u.record[0] = content{attributes(u.said[:0], m.Topic, m.Bytes(mqtt.ContentType)), m.Payload}
	u.records = u.record[:]
}

// keep copies what belongs to the connection's input.
func (u *publishing) keep() {
	r := &u.record[0]
	r.data = bytes.Clone(r.data)
	for i := range r.attributes {
		r.attributes[i].Value = bytes.Clone(r.attributes[i].Value)
	}
}

// checkMessage refuses what the door does not offer.
func (s *Server) checkMessage(v mqtt.Version, m *mqtt.Message) error {
	switch {
	case m.Retain && v == mqtt.V5:
		return &mqtt.Fault{Code: mqtt.NoRetain, What: "no message is retained"}
	case len(m.Topic) > mostTopic:
		return &mqtt.Fault{Code: mqtt.BadTopic, What: fmt.Sprintf("a topic has up to %d bytes", mostTopic)}
	case len(m.Bytes(mqtt.ContentType)) > mostContentType:
		return &mqtt.Fault{Code: mqtt.NotAccepted, What: fmt.Sprintf("a content type has up to %d bytes", mostContentType)}
	}
	return nil
}

// publish queues a message. At QoS 1 the answer comes when it is stored, in the order of the messages.
func (p *mqttProtocol) publish(t *engine.Turn, c *mqttConn, packet *mqtt.Packet) error {
	m := &packet.Message
	if err := p.checkMessage(p.version, m); err != nil {
		return err
	}
	u := &publishing{packet: packet.ID}
	u.begin(c, m)
	var err error
	switch u.level = p.MQTTLevel; m.QoS {
	case 0:
		u.level = Received
		err = u.readProperties(m)
	case 1:
		u.answers = mqtt.Puback
		err = u.readProperties(m)
	case 2:
		u.answers, u.once = mqtt.Pubrec, packet.ID
		u.record[0].attributes = append(u.record[0].attributes, journal.Attribute{Kind: journal.PacketID, Value: binary.BigEndian.AppendUint16(nil, packet.ID)})
	}
	if err == nil {
		err = u.complete(p.most)
	}
	q, waits := &p.queue, false
	q.mu.Lock()
	defer q.mu.Unlock()
	if err == nil {
		waits, err = p.offer(&u.post)
	}
	switch {
	case waits: // no other packet of the connection is read meanwhile
		u.keep()
		u.owe(t.LaterInOrder())
	case !u.canBeTold(err):
		return &mqtt.Fault{Code: codeFor(err), What: err.Error()}
	case u.answers == 0:
		u.code(err)
	case u.level == Received:
		t.Out = mqtt.AppendAck(t.Out, p.version, u.answers, u.packet, u.code(err))
	default:
		if err != nil { // its answer comes behind those to what came before
			q.behind(c.link.session, &u.post, err)
		}
		u.owe(t.Later())
	}
	return nil
}

// release handles a PUBREL: PUBCOMP comes when the log has it, so that the client may use the id again.
func (p *mqttProtocol) release(t *engine.Turn, c *mqttConn, id uint16) error {
	u := &publishing{conn: c, answers: mqtt.Pubcomp, packet: id}
	u.done = u.tell
	q := &p.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	known := c.link.session
	if q.ended || known == nil || known.link != &c.link {
		return engine.ClosedHere
	}
	if seq := known.held[id]; seq == 0 {
		q.behind(known, &u.post, errUnknown) // behind a release that waits
	} else {
		delete(known.held, id)
		p := q.behind(known, &u.post, nil)
		if err := p.records.Packets(known.client, known.epoch, true, map[uint16]uint64{id: seq}); err != nil {
			return err
		}
		p.begins = true
	}
	u.owe(t.Later())
	return nil
}

// owe notes the answer that is promised.
func (u *publishing) owe(reply engine.Reply) {
	u.reply, u.isOwed = reply, true
	u.conn.owed.Add(1)
}

// canBeTold reports whether an answer says why a message is not stored. Else the connection ends.
func (u *publishing) canBeTold(why error) bool {
	refused := errors.Is(why, ErrGap) || errors.Is(why, errStale) || errors.Is(why, ErrHandshake) || errors.Is(why, errNoPlace)
	return why == nil || why == errDuplicate || why == errUnknown || refused && u.answers != 0 && u.conn.version == mqtt.V5
}

// code counts the fate of a message, and returns its code.
func (u *publishing) code(why error) mqtt.Code {
	u.conn.server.countFate(why)
	return codeFor(why)
}

// tell answers the message; queue.mu may be held.
func (u *publishing) tell(why error) {
	if !u.isOwed {
		return
	}
	c, code := u.conn, u.code(why)
	switch {
	case !u.canBeTold(why):
		c.end(code)
		u.reply.Send()
	case u.answers == 0:
		u.reply.Send()
	default:
		c.answer(u.reply, mqtt.AppendAck(nil, c.version, u.answers, u.packet, code)...)
	}
	c.owed.Add(-1)
}

// readProperties reads what the message says of its producer.
func (u *publishing) readProperties(m *mqtt.Message) error {
	epoch, seq := m.User(epochHeader), m.User(seqHeader)
	if epoch == nil && seq == nil {
		return nil
	}
	id := u.client
	if named := m.User(idHeader); named != nil {
		id = string(named)
	}
	return u.named(id, string(epoch), string(seq))
}

// setWill checks a will and keeps it.
func (s *Server) setWill(c *mqttConn, m *mqtt.Message) error {
	if err := s.checkMessage(c.version, m); err != nil {
		return err
	}
	if len(m.Topic)+len(m.Payload) > mostWill {
		return &mqtt.Fault{Code: mqtt.TooLarge, What: fmt.Sprintf("a will has up to %d bytes", mostWill)}
	}
	u := &publishing{}
	u.begin(c, m)
	u.keep()
	u.link, u.done = nil, func(error) {} // nobody is there to be told
	if u.level = s.MQTTLevel; m.QoS == 0 {
		u.level = Received
	}
	c.will = &will{post: &u.post, delay: m.Number(mqtt.WillDelay)}
	return u.complete(s.most)
}
