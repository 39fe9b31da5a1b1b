package gateway

import (
	"cmp"
	"errors"
	"math"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/gateway/internal/mqtt"
)

// The door for MQTT, which takes messages and gives none: docs/mqtt.md says what it answers. A client has the session of
// posts, and holds it with its connection.

// openMQTT makes the door.
func (s *Server) openMQTT(places *engine.Places) {
	d := &s.mqtt
	d.spoken = map[mqtt.Version]*mqttProtocol{}
	for _, v := range []mqtt.Version{0, mqtt.V311, mqtt.V5} {
		d.spoken[v] = &mqttProtocol{s, v}
	}
	d.conns, d.wills = map[*mqttConn]bool{}, map[string]*will{}
	d.engine = engine.Server{
		Protocol: d.spoken[0], Limits: s.Limits, Places: places, Logger: s.Logger, OnClose: s.closedMQTT,
		OwnReasons: []string{"keep_alive_timeout", "too_many_in_flight", "no_room"},
	}
	d.engine.Limits.IdleTime = -1 // the client says how long it may be silent
	d.upgrader = s.mqttUpgrader()
	s.MQTTLevel = cmp.Or(s.MQTTLevel, s.Durable)
}

// mostPacket returns the largest packet that a client may send: its record fits into an envelope.
func (s *Server) mostPacket() int { return min(s.most, mostPosted-1<<10) }

// Advance serves the complete packets at the front of in.
func (p *mqttProtocol) Advance(t *engine.Turn, in []byte) (used, need int, err error) {
	c, is := t.Conn().Value().(*mqttConn)
	if !is {
		c = &mqttConn{server: p.Server}
	}
	return p.serveAll(t, c, in)
}

// serveAll serves the complete packets at the front of in, up to a CONNECT.
func (p *mqttProtocol) serveAll(t *engine.Turn, c *mqttConn, in []byte) (used, need int, err error) {
	most := p.mostPacket()
	if p.version == 0 {
		most = min(most, mostConnect)
	}
	c.seen.Store(p.mqtt.ticks.Load())
	for packet := (mqtt.Packet{}); ; {
		size, need, err := mqtt.Frame(in[used:], most)
		switch {
		case err != nil:
		case need > 0:
			return used, need, nil
		case c.socket == nil && !t.Room():
			return used, 0, nil
		default:
			if err = packet.Parse(p.version, in[used:used+size]); err == nil {
				if c.socket == nil { // else the message is marked
					t.Mark(used)
				}
				err = p.serve(t, c, &packet)
			}
		}
		if err != nil {
			return used, 0, p.refuse(t, &packet, err)
		}
		if used += size; p.version == 0 { // from here on it is another protocol
			return used, 0, nil
		}
	}
}

// serve serves a packet. It returns a *mqtt.Fault or an engine.Reason to end the connection.
func (p *mqttProtocol) serve(t *engine.Turn, c *mqttConn, packet *mqtt.Packet) error {
	switch {
	case (p.version == 0) != (packet.Type == mqtt.Connect):
		return &mqtt.Fault{Code: mqtt.ProtocolError, What: "CONNECT is the first packet, and no other is"}
	case p.version == 0:
		return p.connect(t, c, packet.Hello)
	}
	switch packet.Type {
	case mqtt.Publish:
		return p.publish(t, c, packet)
	case mqtt.Pubrel:
		return p.release(t, c, packet.ID)
	case mqtt.Subscribe, mqtt.Unsubscribe:
		if packet.Type == mqtt.Subscribe && !p.mqtt.told.Swap(true) {
			p.log.Warn("a client of MQTT subscribes: this server takes messages and gives none, see docs/mqtt.md; others are not logged", "client", c.client)
		}
		before := len(t.Out)
		if t.Out = mqtt.AppendRefusal(t.Out, p.version, packet); c.most > 0 && len(t.Out)-before > int(c.most) {
			t.Out = t.Out[:before] // the specification has it so
		}
	case mqtt.Pingreq:
		t.Out = mqtt.AppendPong(t.Out)
	case mqtt.Disconnect:
		return p.leave(c, packet)
	case mqtt.Auth:
		return &mqtt.Fault{Code: mqtt.BadMethod, What: "there is no authentication but by a password"}
	}
	return nil
}

// refuse tells the client, as far as its version allows it, and returns why the connection ends.
func (p *mqttProtocol) refuse(t *engine.Turn, packet *mqtt.Packet, err error) error {
	f, is := errors.AsType[*mqtt.Fault](err)
	if !is {
		return err
	}
	p.count.add(func(st *Stats) { st.Refused++ })
	switch h := packet.Hello; {
	case p.version == mqtt.V5:
		t.Out = mqtt.AppendDisconnect(t.Out, f.Code, f.What)
	case p.version == 0 && h != nil && (h.Version == mqtt.V5 || f.Code > mqtt.ProtocolError):
		t.Out = (&mqtt.Welcome{Code: f.Code, Reason: f.What}).Append(t.Out, h.Version)
	}
	return reasonFor(f.Code, engine.Malformed)
}

// Refuse tells clients of version 5 why the engine ends their connection.
func (p *mqttProtocol) Refuse(dst, _ []byte, why engine.Reason) []byte {
	code := map[engine.Reason]mqtt.Code{
		engine.ShuttingDown: mqtt.ShuttingDown, engine.Panicked: mqtt.Unspecified, engine.FrameTimeout: mqtt.Malformed,
		engine.InputBudget: mqtt.NoRoom, engine.OutputBudget: mqtt.NoRoom,
	}[why]
	if p.version != mqtt.V5 || code == 0 {
		return dst
	}
	return mqtt.AppendDisconnect(dst, code, "")
}

// connect begins a client's connection. CONNACK comes when the committer has found or stored its session.
func (p *mqttProtocol) connect(t *engine.Turn, c *mqttConn, h *mqtt.Hello) error {
	client, welcome := string(h.Client), mqtt.Welcome{InFlight: uint16(p.mostInFlight()), MostBytes: p.mostPacket()}
	if client == "" && (h.Clean || h.Version == mqtt.V5) {
		client, welcome.Client = string(h.User), string(h.User)
	}
	c.Conn, c.client, c.version, c.clean, c.most = t.Conn(), client, h.Version, h.Clean, h.Number(mqtt.MaximumPacket)
	asked := h.Number(mqtt.SessionExpiry)
	c.lasting = !h.Clean && h.Version == mqtt.V311 || asked > 0
	keepAlive := uint32(h.KeepAlive)
	if most := p.MQTTKeepAlive; most > 0 && h.KeepAlive-1 >= most { // 0 is no limit
		keepAlive, welcome.KeepAlive = uint32(most), most
	}
	c.keepAlive = (3*keepAlive + 1) / 2
	switch err := checkClientID(client); {
	case err != nil:
		return &mqtt.Fault{Code: mqtt.BadClient, What: err.Error()}
	case h.Has(mqtt.AuthMethod):
		return &mqtt.Fault{Code: mqtt.BadMethod, What: "there is no authentication but by a password"}
	case c.most > 0 && c.most < leastPacket:
		return &mqtt.Fault{Code: mqtt.TooLarge}
	case h.Will != nil:
		if err := p.setWill(c, h.Will); err != nil {
			return err
		}
	}
	if expiry := uint32(min(p.Expiry/time.Second, math.MaxUint32)); h.Version == mqtt.V5 && c.lasting && expiry != asked {
		welcome.Expiry, welcome.Expires = expiry, true
	}
	proof, err := p.authenticate(t.Conn().TLS, client, string(h.Password))
	reply := t.LaterInOrder()
	if err != nil { // whoever guesses has to wait for each answer
		p.count.add(func(st *Stats) { st.Refused++ })
		time.AfterFunc(refusalTime, func() {
			(&greeting{conn: c, reply: reply}).refuse(mqtt.NotAuthorised)
		})
		return nil
	}
	c.link = link{conn: c, level: p.MQTTLevel, posts: true, proof: proof}
	if c.socket == nil {
		t.Conn().SetValue(c)
		t.Become(p.mqtt.spoken[h.Version])
	}
	t.Conn().Trust() // what follows takes the log its time, and not the client
	p.mqtt.mu.Lock()
	p.mqtt.conns[c] = true
	p.mqtt.mu.Unlock()
	r := request{client: t.Context(p.mqtt.engine.Context()), came: time.Now(), link: &c.link, resumes: c.resumes, reply: answer{other: &greeting{c, reply, welcome}}}
	if r.hello = (hello{client: client, next: 1, instance: postInstance}); c.lasting {
		r.hello.instance = lastingInstance
	}
	if !p.queue.ask(func(p *pack) { p.requests = append(p.requests, r) }) {
		return engine.ClosedHere // the server is ending
	}
	return nil
}

// greeting is a CONNACK that is owed.
type greeting struct {
	conn    *mqttConn
	reply   engine.Reply
	welcome mqtt.Welcome
}

// send welcomes the client; queue.mu is held.
func (g *greeting) send([]byte) {
	c, d := g.conn, &g.conn.server.mqtt
	c.welcome, g.welcome.Present = true, c.present
	d.mu.Lock()
	if w := d.wills[c.client]; w != nil && c.present {
		delete(d.wills, c.client)
	} else if w != nil {
		w.due = d.ticks.Load() // its session has ended
	}
	d.mu.Unlock()
	c.answer(g.reply, g.welcome.Append(nil, c.version)...)
	g.over()
}

func (g *greeting) fail(why error) {
	code := codeFor(why)
	if code == mqtt.TakenOver { // a CONNACK cannot say so
		code = mqtt.Unavailable
	}
	g.refuse(code)
}

func (g *greeting) refuse(code mqtt.Code) {
	g.conn.finish(engine.ClosedHere, (&mqtt.Welcome{Code: code}).Append(nil, g.conn.version))
	g.reply.Send()
	g.over()
}

// over lets a WebSocket go on.
func (g *greeting) over() {
	if g.conn.socket != nil {
		close(g.conn.socket.answered)
	}
}

// leave handles a DISCONNECT.
func (p *mqttProtocol) leave(c *mqttConn, packet *mqtt.Packet) error {
	switch lasts := packet.Number(mqtt.SessionExpiry) > 0; {
	case lasts && !c.lasting:
		return &mqtt.Fault{Code: mqtt.ProtocolError, What: "a session that ends with its connection cannot last"}
	case packet.Has(mqtt.SessionExpiry) && !lasts && c.lasting:
		p.endSession(c)
	}
	if packet.Code == mqtt.Success {
		c.will = nil
	}
	return engine.ClosedHere
}

// endSession has the log say that the client's session ends with this connection.
func (s *Server) endSession(c *mqttConn) {
	q := &s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	known := c.link.session
	if known == nil || known.link != &c.link || q.ended {
		return
	}
	c.lasting, known.instance = false, postInstance
	q.packFor(known, 2*recordCost, 1).note(known)
}

// closedMQTT is called when a connection has ended.
func (s *Server) closedMQTT(conn engine.Conn, why engine.Reason) {
	if c, is := conn.Value().(*mqttConn); is {
		s.lostMQTT(c, why)
	}
}

// lostMQTT handles the end of a client's connection.
func (s *Server) lostMQTT(c *mqttConn, why engine.Reason) {
	d := &s.mqtt
	s.closed(&c.link)
	s.queue.mu.Lock()
	known, w := s.sessions.byClient[c.client], c.will
	lost := w != nil && c.welcome && why != engine.ShuttingDown && why != engine.Forced && known.takesPosts()
	waits := lost && w.delay > 0 && c.lasting
	if waits && known.link != nil { // the client has come back already, perhaps in another session
		waits, lost = false, !known.link.conn.(*mqttConn).present
	}
	s.queue.mu.Unlock()
	d.mu.Lock()
	delete(d.conns, c)
	if waits = waits && len(d.wills) < mostWills; waits {
		w.due = d.ticks.Load() + w.delay
		d.wills[c.client] = w
	}
	d.mu.Unlock()
	if lost && !waits {
		s.post(w.post)
	}
}

// sweepMQTT ends the connections that were silent for too long or whose packets arrive too slowly, and stores the wills that are due.
func (s *Server) sweepMQTT() {
	d := &s.mqtt
	d.mu.Lock()
	now := d.ticks.Add(1)
	var silent, late []*mqttConn
	for c := range d.conns {
		switch {
		case c.socket.isLate(now, &s.limits):
			late = append(late, c)
		case c.owed.Load() > 0: // it waits for the log
			c.seen.Store(now)
		case c.keepAlive > 0 && now-c.seen.Load() > c.keepAlive:
			silent = append(silent, c)
		}
	}
	var due []*will
	for client, w := range d.wills {
		if int32(now-w.due) >= 0 {
			due = append(due, w)
			delete(d.wills, client)
		}
	}
	d.mu.Unlock()
	for _, c := range silent {
		c.end(mqtt.KeepAliveTimeout)
	}
	for _, c := range late {
		c.end(mqtt.Malformed)
	}
	for _, w := range due {
		s.post(w.post)
	}
}
