package gateway

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hone-go/hone/gateway/journal"
)

// Doors: what clients reach the log through. Every door has a client's name checked by authenticate, hands its records
// to the queue, which checks their numbers and appends them in one step, and is told by a replier what became of them. Frames
// have a session with a connection that holds it, and number their records themselves. Posts have neither: the queue numbers their records in a session of its own, and a producer may number
// its posts.

// replier is told what became of a record; queue.mu may be held, and it must not block.
type replier interface {
	send(content []byte)
	fail(why error)
}

// post is a number of records that are stored in one envelope, or none of them.
type post struct {
	client  string
	level   Level
	puts    bool // it has no records, and makes only sure that the client has a session
	records []content
	size    int // that they add to an envelope, at most

	link    *link  // that must hold the session; nil: none
	once    uint16 // the packet id of a message at QoS 2; 0: it is none
	id      string // of the producer; empty: there is none
	numbers numbering
	done    func(why error) // called once, with nil, errDuplicate or why it is not stored; nil after that

	newest   numbering // of the producer, with this post
	expected uint64    // the number that should have come

	producer *producer // set when it is queued
	fate     error     // what it is told when its turn comes
	came     time.Time // when it began to wait for room
}

// content is a record without its numbers.
type content struct {
	attributes []journal.Attribute
	data       []byte
}

// Limits of a post: it fits into an envelope beside nothing else.
const (
	mostPosted      = journal.MaxEnvelope - 2<<10
	mostPostRecords = packRecords - packRecords/8
	postTime        = 5 * time.Second // that one waits for room, and up to a second more
)

// named notes the producer that a post names, and its numbers.
func (u *post) named(id, epoch, seq string) error {
	if err := checkClientID(id); err != nil {
		return bad(http.StatusBadRequest, "%s: like a client's name, 1 to %d printable characters without spaces", idHeader, maxClientID)
	}
	u.id = id
	for _, n := range []struct {
		name, text string
		into       *uint64
	}{{epochHeader, epoch, &u.numbers.epoch}, {seqHeader, seq, &u.numbers.seq}} {
		var err error
		if *n.into, err = strconv.ParseUint(n.text, 10, 53); err != nil { // what JavaScript can count to
			return bad(http.StatusBadRequest, "%s is a number from 0 to %d, not %q", n.name, uint64(1<<53-1), n.text)
		}
	}
	return nil
}

// attributes appends what a record says of its topic and content type.
func attributes(dst []journal.Attribute, topic, kind []byte) []journal.Attribute {
	if len(topic) > 0 {
		dst = append(dst, journal.Attribute{Kind: journal.Topic, Value: topic})
	}
	if len(kind) > 0 {
		dst = append(dst, journal.Attribute{Kind: journal.ContentType, Value: kind})
	}
	return dst
}

// countFate counts what has become of a post.
func (s *Server) countFate(why error) {
	if why == nil || why == errUnknown {
		return
	}
	s.count.add(func(st *Stats) {
		if why == errDuplicate {
			st.Duplicates++
			return
		}
		if st.Refused++; errors.Is(why, ErrGap) {
			st.Ahead++
		}
	})
}

// complete completes a post whose records are set. It refuses one that does not fit.
func (u *post) complete(mostData int) error {
	if u.id != "" {
		said := journal.Producer{ID: u.id, Epoch: u.numbers.epoch, Seq: u.numbers.seq}
		last := &u.records[len(u.records)-1]
		last.attributes = append(slices.Clip(last.attributes), said.Attribute())
	}
	for i := range u.records {
		r := &u.records[i]
		if len(r.data) > mostData {
			return fmt.Errorf("%w: record %d has %d bytes, the limit is %d", errTooLarge, i+1, len(r.data), mostData)
		}
		u.size += cost(r.data)
		for _, a := range r.attributes {
			u.size += 3 + len(a.Value)
		}
	}
	if u.size > mostPosted || len(u.records) > mostPostRecords {
		return fmt.Errorf("%w: %d records, %d bytes with %d for each record", errTooLarge, len(u.records), u.size, recordCost)
	}
	return nil
}

// post queues a post, or has it wait for room.
func (s *Server) post(u *post) {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	if _, err := s.offer(u); err != nil {
		u.answer(err)
	}
}

// offer is post without an answer; queue.mu is held.
func (s *Server) offer(u *post) (waits bool, err error) {
	q := &s.queue
	if err = errCrowded; len(q.posts) == 0 || q.ended {
		err = s.put(u)
	}
	if err != errCrowded || q.posted+u.size > q.most {
		return false, err
	}
	u.came, q.posts, q.posted = time.Now(), append(q.posts, u), q.posted+u.size
	return true, nil
}

// retryPosts queues the posts that wait for room, as far as there is some, and gives up those that have waited too long;
// those of one client stay in order. queue.mu is held.
func (s *Server) retryPosts() {
	q := &s.queue
	kept, blocked := q.posts[:0], map[string]bool{}
	for _, u := range q.posts {
		err := errCrowded
		if !blocked[u.client] && (q.bytes < q.most || q.ended) {
			err = s.put(u)
		}
		if err == errCrowded && time.Since(u.came) < postTime {
			kept, blocked[u.client] = append(kept, u), true
			continue
		}
		if q.posted -= u.size; err != nil {
			u.answer(err)
		}
	}
	clear(q.posts[len(kept):])
	q.posts = kept
}

// put checks a post and appends its records; queue.mu is held. errCrowded means that it has to wait, and errDuplicate that
// everything that the producer has sent is stored; the post is answered later if there is no error.
func (s *Server) put(u *post) error {
	q := &s.queue
	if q.ended {
		return ErrServerClosed
	}
	running, before := s.readClock(), s.sessions.byClient[u.client]
	if u.puts && before != nil {
		return errDuplicate
	}
	known := s.producers.find(u.client, u.id)
	if u.id != "" {
		err := u.check(known)
		switch {
		case err == errDuplicate && !known.isDurable() && u.level != Received:
			q.behind(known.session, u, errDuplicate)
			return nil
		case err != nil:
			return err
		case known == nil && s.producers.isFull(u.client, s.Clients):
			return errNoPlace
		}
	}
	to, err := s.sessionOfPosts(u.client, before)
	switch {
	case err != nil:
		return err
	case u.link != nil && to.link != u.link:
		return ErrMoved
	case u.once != 0 && to.held[u.once] > 0:
		q.behind(to, u, errDuplicate)
		return nil
	case u.once != 0 && len(to.held) >= s.mostInFlight():
		return errInFlight
	}
	if s.full.Load() && (q.records > 0 || s.Log.Status().Full != nil) || q.crowded(to) {
		return errCrowded
	}
	if u.id != "" && known == nil {
		known = &producer{client: to.client, id: u.id}
		s.producers.add(known)
	}
	size := u.size
	if before != to {
		size += 2 * recordCost // for its state
	}
	p := q.packFor(to, size, len(u.records))
	if before != to {
		if before != nil {
			before.fence(ErrFenced)
		}
		s.sessions.byClient[to.client], s.sessions.highest = to, to.epoch
		if err := p.note(to); err != nil {
			return err
		}
	}
	to.summed = false
	for i := range u.records {
		if err := q.add(p, to, u.records[i].attributes, u.records[i].data); err != nil {
			return err // what the post says of its size is wrong
		}
	}
	if u.once != 0 {
		to.hold(u.once, to.accepted)
	}
	to.seen = running
	p.enter(to, len(u.records)).other = u
	if known != nil {
		known.newest, known.session, known.record, known.seen = u.numbers, to, to.accepted, running
		u.producer = known
	}
	if u.records = nil; u.level == Received {
		u.answer(nil)
	}
	return nil
}

// behind has a post told its fate once everything of the session that is queued is stored; queue.mu is held.
func (q *queue) behind(known *session, u *post, fate error) *pack {
	u.fate = fate
	p := q.packFor(known, recordCost, 1)
	q.hold(p, known, recordCost) // there may be an entry of the log
	p.enter(known, 0).other = u
	return p
}

// check compares the numbers of a post with those of its producer, which is nil if the post is the first one, and notes what
// the client is told about them. It returns errDuplicate for a post that is stored or queued.
func (u *post) check(known *producer) error {
	u.newest = u.numbers
	if known == nil {
		if u.numbers.seq > 0 {
			return fmt.Errorf("%w: nothing of this producer is known", ErrGap)
		}
		return nil
	}
	switch newest, is := known.newest, u.numbers; {
	case is.epoch < newest.epoch:
		u.newest = newest
		return fmt.Errorf("%w: %d", errStale, newest.epoch)
	case is.epoch > newest.epoch && is.seq > 0:
		return bad(http.StatusBadRequest, "an epoch begins at number 0")
	case is.epoch > newest.epoch:
	case is.seq > newest.seq+1:
		u.expected = newest.seq + 1
		return fmt.Errorf("%w: %d came after %d", ErrGap, is.seq, newest.seq)
	case is.seq <= newest.seq:
		u.newest = newest
		return errDuplicate
	}
	return nil
}

// The instances of sessions that belong to doors for posts.
const (
	postInstance    = ^uint64(0)
	lastingInstance = ^uint64(0) - 1 // a client of MQTT goes on in it over connections
)

// mostInFlight returns how many messages at QoS 2 a client may have sent and not released.
func (s *Server) mostInFlight() int { return min(max(s.limits.InFlight, 1), math.MaxUint16) }

// takesPosts reports whether a session belongs to doors for posts; queue.mu is held.
func (known *session) takesPosts() bool {
	if known == nil || known.instance != postInstance && known.instance != lastingInstance {
		return false
	}
	return known.link == nil || known.link.posts
}

// sessionOfPosts returns the session for a client's posts: the known one or a new one, which takes the place of a session of
// frames. queue.mu is held.
func (s *Server) sessionOfPosts(client string, known *session) (*session, error) {
	switch {
	case known == nil && len(s.sessions.byClient) >= s.Clients:
		return nil, fmt.Errorf("%w: %d", ErrTooMany, s.Clients)
	case !known.takesPosts():
		next := newSession(strings.Clone(client), max(uint64(s.clock.time), s.sessions.highest+1), 0)
		next.instance, next.summed = postInstance, false
		if known != nil {
			next.pack = known.pack // its records come behind those of the session before
		}
		return next, nil
	}
	return known, nil
}

// send says that the post is stored.
func (u *post) send([]byte) {
	if u.producer != nil {
		u.producer.stored, u.producer.isKept = u.numbers, true
	}
	u.answer(u.fate)
}

// fail says that it may be stored or not.
func (u *post) fail(error) { u.answer(ErrServerClosed) }

// answer tells the client.
func (u *post) answer(why error) {
	if done := u.done; done != nil {
		u.done = nil
		done(why)
	}
}

// abandonPosts answers the posts that the server did not store, when it has failed.
func (s *Server) abandonPosts() {
	q := &s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	all := q.waiting
	if q.storing != nil {
		all = append(all, q.storing)
	}
	for _, p := range all {
		for i := range p.entries {
			if u, is := p.entries[i].reply.other.(*post); is {
				u.fail(nil)
			}
		}
	}
}

// sweepDoors is called once a second.
func (s *Server) sweepDoors() {
	s.queue.lookAgain()
	s.sweepMQTT()
}
