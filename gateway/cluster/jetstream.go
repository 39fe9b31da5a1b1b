package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hone-go/hone/gateway/internal/writer"
	"github.com/hone-go/hone/gateway/journal"
)

const (
	subject = "honed.log"
	// writerHeader identifies the writer and its Append call, so that a publish with an unknown
	// outcome can be recognised in the stream.
	writerHeader = "Honed-Writer"
)

// Error codes of JetStream for want of storage; it stored nothing.
const (
	codeNoResources jetstream.ErrorCode = 10023
	codeNoStorage   jetstream.ErrorCode = 10047
	codeStoreFailed jetstream.ErrorCode = 10077
)

func refused(err error, codes ...jetstream.ErrorCode) bool {
	api, is := errors.AsType[*jetstream.APIError](err)
	return is && slices.Contains(codes, api.ErrorCode)
}

// stream is one JetStream stream, which holds one envelope per message.
type stream struct {
	nc   *nats.Conn
	js   jetstream.JetStream
	name string

	tries int                            // attempts of a read without progress
	hole  atomic.Pointer[journal.Damage] // that a read has met last
}

func newStream(nc *nats.Conn, name string) (*stream, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	return &stream{nc: nc, js: js, name: name, tries: maxTries}, nil
}

// config returns the configuration of a new stream: JetStream never deletes from it by itself.
func (o *Options) config() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:        o.Stream,
		Description: "honed: what was acknowledged; written by honed alone",
		Subjects:    []string{subject + "." + o.Stream},
		Retention:   jetstream.LimitsPolicy,
		Discard:     jetstream.DiscardNew,
		Storage:     jetstream.FileStorage,
		Replicas:    o.Replicas,
		MaxMsgs:     -1,
		MaxBytes:    -1,
		MaxMsgSize:  -1,
		AllowDirect: true,
		DenyDelete:  true, // and purging is for Trim
	}
}

// state asks the stream's leader once for its configuration and bounds. Without a leader, JetStream answers
// that the stream is empty.
func (s *stream) state(ctx context.Context) (*jetstream.StreamInfo, error) {
	attempt, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	found, err := s.js.Stream(attempt, s.name)
	if err != nil {
		return nil, err
	}
	info := found.CachedInfo()
	if c := info.Cluster; c != nil && c.Name != "" && c.Leader == "" {
		return nil, errLeaderless
	}
	return info, nil
}

var errLeaderless = errors.New("the stream has no leader")

func bounds(state jetstream.StreamState) (first, next uint64) {
	return max(state.FirstSeq, 1), state.LastSeq + 1
}

// checkConfig refuses a stream whose configuration may lose envelopes, or cannot store them.
func (o *Options) checkConfig(c jetstream.StreamConfig) error {
	wrong := ""
	switch {
	case !slices.Equal(c.Subjects, []string{subject + "." + o.Stream}):
		wrong = fmt.Sprintf("has the subjects %q instead of %q", c.Subjects, subject+"."+o.Stream)
	case c.NoAck:
		wrong = "acknowledges nothing (no_ack)"
	case c.MaxMsgs > 0 || c.MaxBytes > 0 || c.MaxMsgSize > 0:
		wrong = fmt.Sprintf("has limits of its own (max_msgs %d, max_bytes %d, max_msg_size %d)", c.MaxMsgs, c.MaxBytes, c.MaxMsgSize)
	case c.SubjectTransform != nil || c.Mirror != nil || len(c.Sources) > 0:
		wrong = "has messages of other subjects or streams (a subject transform, mirror or sources)"
	case !c.DenyDelete || c.AllowRollup:
		wrong = "lets its messages be deleted (deny_delete, allow_rollup_hdrs)"
	case c.DenyPurge:
		wrong = "cannot be trimmed (deny_purge, which NATS does not take back)"
	case c.PersistMode != jetstream.DefaultPersistMode:
		wrong = "acknowledges before it has written (persist_mode async)"
	case c.Sealed:
		wrong = "is sealed"
	case c.Storage != jetstream.FileStorage:
		wrong = "keeps its messages in memory"
	case c.Discard != jetstream.DiscardNew:
		wrong = "discards old messages when it is full"
	case c.Retention != jetstream.LimitsPolicy || c.MaxAge != 0 || c.MaxMsgsPerSubject > 0:
		wrong = "deletes messages by age, number or interest"
	case c.Replicas < o.Replicas:
		wrong = fmt.Sprintf("has %d replicas instead of %d", c.Replicas, o.Replicas)
	case !c.AllowDirect:
		wrong = "does not allow direct gets"
	default:
		return nil
	}
	return &journal.Refusal{
		What:   fmt.Sprintf("the stream %s %s", c.Name, wrong),
		Repair: "correct its configuration with the nats command, or use another stream",
	}
}

// publish sends one envelope for position want, and returns nil when JetStream has confirmed that
// position.
func (s *stream) publish(ctx context.Context, envelope []byte, want uint64, writer string) error {
	m := &nats.Msg{Subject: subject + "." + s.name, Data: envelope, Header: nats.Header{writerHeader: []string{writer}}}
	ack, err := s.js.PublishMsg(ctx, m, jetstream.WithExpectLastSequence(want-1), jetstream.WithRetryAttempts(0))
	if err == nil && (ack.Stream != s.name || ack.Sequence != want) {
		err = fmt.Errorf("stored as %d in %q, expected %d in %q", ack.Sequence, ack.Stream, want, s.name)
	}
	return err
}

// Limits of reads, which request batches.
const (
	batchMessages = 512
	batchBytes    = 8 << 20
	batchTimeout  = 5 * time.Second // for the next message of a batch
	retryPause    = 50 * time.Millisecond
	maxTries      = 600 // attempts without progress: half a minute of refusals,
	maxTimeouts   = 12  // or a minute of timeouts
)

// readSoon is read of messages that a writer is storing: it asks every millisecond, until ctx ends.
func (s *stream) readSoon(ctx context.Context, from, next uint64, each func(pos uint64, m *nats.Msg) error) (err error) {
	for missing := (*missingError)(nil); from < next && (err == nil || errors.As(err, &missing)); {
		if from, err = s.readBatch(ctx, from, next, each); err != nil {
			err = cmp.Or(writer.Pause(ctx, time.Millisecond), err)
		}
	}
	return err
}

// read calls each for the messages from position from up to, but not including, next. It retries
// when a replica has not caught up.
func (s *stream) read(ctx context.Context, from, next uint64, each func(pos uint64, m *nats.Msg) error) error {
	for tries := 0; from < next; {
		at, err := s.readBatch(ctx, from, next, each)
		if tries++; at > from {
			tries = 1
		}
		from = at
		var missing *missingError
		if errors.As(err, &missing) && missing.replied {
			if err := s.lacks(ctx, at, next, tries, missing); err != nil {
				return err
			}
		} else if missing != nil && !missing.refused {
			tries += s.tries / maxTimeouts
		}
		switch {
		case missing != nil && tries < s.tries:
			// A replica has not caught up, the connection broke, or the machine is too busy
			// to answer in time.
			if err := writer.Pause(ctx, retryPause); err != nil {
				return errors.Join(missing, err)
			}
		case errors.Is(err, nats.ErrConnectionClosed):
			return journal.ErrClosed
		case missing != nil:
			return fmt.Errorf("journal: position %d: %w", at, missing)
		case err != nil:
			return err
		}
	}
	return nil
}

// askLeader is how many tries of a read are between two questions to the leader.
const askLeader = 20

// lacks returns a *TrimmedError or *Damage if not only a replica lacks the message at a position, but the
// stream; nil: the replica may catch up. The leader decides: a replica may be far behind.
func (s *stream) lacks(ctx context.Context, at, next uint64, tries int, cause error) error {
	if h := s.hole.Load(); h != nil && h.First <= at && at <= h.Last {
		return &journal.Damage{First: at, Last: min(h.Last, next-1), Err: cause}
	}
	if tries%askLeader == 2 { // most replicas have caught up by then
		if info, err := s.state(ctx); err == nil {
			if first, _ := bounds(info.State); first > at {
				return &journal.TrimmedError{First: first}
			}
		}
	}
	if tries < s.tries {
		return nil
	}
	reply, err := s.askFor(ctx, at, "$JS.API.STREAM.MSG.GET.")
	var answer struct {
		Error   *jetstream.APIError
		Message struct{ Seq uint64 }
	}
	if err == nil {
		err = json.Unmarshal(reply.Data, &answer)
	}
	switch {
	case err != nil:
		return errors.Join(cause, fmt.Errorf("the leader did not say whether it has position %d: %w", at, err))
	case answer.Error != nil && answer.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		answer.Message.Seq = next
	case answer.Message.Seq <= at:
		return nil
	}
	h := &journal.Damage{First: at, Last: min(answer.Message.Seq, next) - 1, Err: cause}
	s.hole.Store(h)
	return h
}

// reaches reports whether a replica has the message at position pos, or one after it.
func (s *stream) reaches(ctx context.Context, pos uint64) bool {
	m, err := s.askFor(ctx, pos, "$JS.API.DIRECT.GET.")
	return err == nil && m.Header.Get("Status") == ""
}

// askFor asks once for the message at position pos, or else the next one.
func (s *stream) askFor(ctx context.Context, pos uint64, api string) (*nats.Msg, error) {
	attempt, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	request := fmt.Sprintf(`{"seq":%d,"next_by_subj":%q}`, pos, subject+"."+s.name)
	return s.nc.RequestWithContext(attempt, api+s.name, []byte(request))
}

// missingError means that a batch ended without the expected message.
type missingError struct {
	status  string
	replied bool // the replica answered that it lacks the message
	refused bool // there was an answer at once, and another one
}

func (e *missingError) Error() string { return "JetStream did not return the message: " + e.status }

// readBatch reads the answer to one request and returns the position after it.
//
// An answer has many messages, and some can be lost: when the connection breaks, the client
// subscribes again at another server, and the replica continues to send the answer. Each message
// names its predecessor in the answer, which distinguishes a message lost in transit from one that
// the replica lacks.
func (s *stream) readBatch(ctx context.Context, from, next uint64, each func(pos uint64, m *nats.Msg) error) (uint64, error) {
	inbox := s.nc.NewInbox()
	sub, err := s.nc.SubscribeSync(inbox)
	if err != nil {
		return from, err
	}
	defer sub.Unsubscribe()
	request := fmt.Sprintf(`{"seq":%d,"batch":%d,"max_bytes":%d}`, from, min(batchMessages, next-from), batchBytes)
	if err := s.nc.PublishRequest("$JS.API.DIRECT.GET."+s.name, inbox, []byte(request)); err != nil {
		return from, err
	}
	for at := from; ; at++ {
		patience, cancel := context.WithTimeout(ctx, batchTimeout)
		m, err := sub.NextMsgWithContext(patience)
		cancel()
		switch {
		case err != nil && ctx.Err() == nil && !errors.Is(err, nats.ErrConnectionClosed):
			return at, &missingError{status: err.Error(), refused: errors.Is(err, nats.ErrNoResponders)}
		case err != nil:
			return at, err
		}
		if status := m.Header.Get("Status"); status != "" { // 404 not found, 204 the end
			if at == from {
				lacks := (status == "404" || status == "204") && !lostBefore(m, at)
				return at, &missingError{status: status, replied: lacks, refused: !lacks}
			}
			return at, nil // the end of the batch
		}
		if pos := m.Header.Get(jetstream.SequenceHeader); pos != strconv.FormatUint(at, 10) {
			return at, &missingError{status: fmt.Sprintf("position %s comes after %d", pos, at-1), replied: !lostBefore(m, at)}
		}
		if at >= next {
			return at, nil
		}
		if err := each(at, m); err != nil {
			return at, err
		}
	}
}

// lostBefore reports whether messages of an answer from position at were lost before m.
func lostBefore(m *nats.Msg, at uint64) bool {
	before, err := strconv.ParseUint(m.Header.Get(jetstream.LastSequenceHeader), 10, 64)
	return err == nil && before >= at
}
