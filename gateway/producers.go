package gateway

import "github.com/hone-go/hone/gateway/journal"

// producer is what the server remembers of a program that numbers what it sends of a client through a door for posts.
// queue.mu guards it.
type producer struct {
	client, id string
	newest     numbering // that is stored or queued
	session    *session  // of its newest record
	record     uint64    // the number of that record there
	seen       int64     // when it sent that, by clock.running

	stored numbering // only the committer and recovery use it; no epoch: none
	isKept bool      // stored is set
}

// numbering is what a producer calls a post.
type numbering struct{ epoch, seq uint64 }

// mostProducers is how many producers of one client the server remembers.
const mostProducers = 1000

// isDurable reports whether everything that the producer has sent is stored.
func (known *producer) isDurable() bool { return known.record <= known.session.durable.Load() }

// producers are all producers by client and id; queue.mu guards them.
type producers struct {
	byClient map[string]map[string]*producer
	count    int
}

func (t *producers) find(client, id string) *producer { return t.byClient[client][id] }

func (t *producers) isFull(client string, most int) bool {
	return len(t.byClient[client]) >= mostProducers || t.count >= most
}

func (t *producers) add(p *producer) {
	if t.byClient == nil {
		t.byClient = map[string]map[string]*producer{}
	}
	all := t.byClient[p.client]
	if all == nil {
		all = map[string]*producer{}
		t.byClient[p.client] = all
	}
	all[p.id] = p
	t.count++
}

func (t *producers) forget(client string) {
	t.count -= len(t.byClient[client])
	delete(t.byClient, client)
}

// learn applies what the log says, in a record or in a checkpoint, of a producer whose client has this session.
func (t *producers) learn(said journal.Producer, of *session, seen int64) {
	p := t.find(said.Client, said.ID)
	if p == nil {
		p = &producer{client: said.Client, id: said.ID}
		t.add(p)
	}
	if n := (numbering{said.Epoch, said.Seq}); !p.isKept || p.stored.before(n) {
		p.newest, p.stored, p.isKept = n, n, true
	}
	p.session, p.seen = of, max(p.seen, seen) // record is 0: all of them are stored
}

// before reports whether n is of an earlier post than other.
func (n numbering) before(other numbering) bool {
	return n.epoch < other.epoch || n.epoch == other.epoch && n.seq < other.seq
}

// states adds what a checkpoint has of a client's producers: what is stored before it; the records in its envelopes say what
// they add to that. It forgets those that have expired.
func (t *producers) states(into []journal.Producer, client string, now, expiry int64) []journal.Producer {
	for id, p := range t.byClient[client] {
		switch {
		case now-p.seen > expiry && p.isDurable():
			delete(t.byClient[client], id)
			t.count--
		case p.isKept:
			into = append(into, journal.Producer{Client: client, ID: id, Epoch: p.stored.epoch, Seq: p.stored.seq, Seen: p.seen - now})
		}
	}
	return into
}
