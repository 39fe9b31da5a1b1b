package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/hone-go/hone/gateway"
	"github.com/hone-go/hone/gateway/internal/commandline"
	"github.com/hone-go/hone/internal/sys"
)

// relaying are the flags of honed-relay without a verb.
type relaying struct {
	commandline.Serving
	relay
	reading commandline.Reading
	stored  bool

	to           string
	table        string
	createTable  bool
	dataType     string
	user         string
	passwordFile string
	secretFile   string
	authFile     string
	lanes        int
	requestTime  time.Duration

	data         string
	deadMessages int
	deadBytes    int64
}

func (f *relaying) add(flags *flag.FlagSet) {
	f.reading.Add(flags, "start", "first")
	r := &f.reading.Reader
	flags.StringVar(&r.Name, "from", "", "name of the `READER`; honed keeps the relay's position under it")
	flags.IntVar(&r.Share, "share", 0, "which of --shares this relay takes, from 0 on")
	flags.IntVar(&r.Shares, "shares", 1, "how many relays of this name share the clients")
	flags.BoolVar(&f.stored, "stored", false, "refuse to begin if honed has no position of the reader")
	flags.BoolVar(&r.Anew, "anew", false, "begin at --start whatever is stored, also in the destination")

	flags.StringVar(&f.to, "to", "", "the `DESTINATION`: stdout, https://…, http://…, postgres://… or kafka://…")
	flags.StringVar(&f.table, "table", "hone_messages", "PostgreSQL: the table; the relays' positions are in hone_positions in its schema")
	flags.BoolVar(&f.createTable, "create-table", false, "PostgreSQL: create both tables if they do not exist")
	flags.StringVar(&f.dataType, "data-type", "bytea", "PostgreSQL: type of the column data in a new table: bytea, text or jsonb")
	flags.StringVar(&f.user, "user", "", "Kafka: log in as this user, with SCRAM-SHA-512, over TLS")
	flags.StringVar(&f.passwordFile, "password-file", "", "PostgreSQL, Kafka: `FILE` with the password")
	flags.StringVar(&f.secretFile, "secret-file", "", "webhook: sign requests with the secret in this `FILE`")
	flags.StringVar(&f.authFile, "authorization-file", "", "webhook: `FILE` with the value of the header Authorization")
	flags.IntVar(&f.lanes, "lanes", 4, "webhook: requests at once; each client's messages come one request after the other")
	flags.IntVar(&f.messages, "batch-messages", 1000, "messages in a batch; a webhook's request has at most a tenth")
	flags.IntVar(&f.bytes, "batch-bytes", 1<<20, "`BYTES` of data in a batch, or one message")
	flags.DurationVar(&f.requestTime, "request-time", 30*time.Second, "how long one request or transaction may take")
	flags.DurationVar(&f.longest, "retry-time", 30*time.Second, "longest pause between two attempts; the first is 100ms. A webhook may ask for more, up to a day")

	flags.StringVar(&f.data, "data", "honed-relay-data", "`FOLDER` of the dead-letter log")
	flags.IntVar(&f.deadMessages, "dead-messages", 1_000_000, "messages in the dead-letter log at which the relay stops")
	flags.Int64Var(&f.deadBytes, "dead-bytes", 1<<30, "`BYTES` of the dead-letter log at which the relay stops; 0: only the disk limits it")
	flags.BoolVar(&f.passOn, "pass-on", false, "do not hold up a client's later messages while one is in the dead-letter log")
	flags.BoolVar(&f.acceptGaps, "accept-gaps", false, "go on where honed has deleted or lost messages, instead of stopping")

	f.Serving.Add(flags, "127.0.0.1:7172", "also stop when standard input ends, for a relay that must not outlive its parent")
}

func serve(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var f relaying
	flags, config := commandline.New("honed-relay")
	f.add(flags)
	if err := commandline.Parse(flags, config, args, 0, stdout); err != nil {
		return err
	}
	if err := f.check(); err != nil {
		return commandline.UsageError{Err: err}
	}
	var err error
	if f.logger, err = f.Logger(stderr); err != nil {
		return err
	}
	if f.to != "stdout" { // a relay that prints the messages ends with their reader
		sys.OutliveReaders()
	}
	if err := f.reading.Prepare("--from"); err != nil {
		return err
	}
	f.reader = &f.reading.Reader
	if f.reader.Logger = f.logger; f.reader.Start == gateway.Stored && !f.stored {
		f.reader.Start = gateway.FromFirst
	}
	if f.sink, err = f.destination(stdout); err != nil {
		return err
	}
	return f.start(ctx)
}

// start opens the dead-letter log and the admin side, and runs the relay.
func (f *relaying) start(ctx context.Context) (err error) {
	r := &f.relay
	if r.dead, err = openDead(ctx, f.data, f.deadMessages, f.deadBytes, r.logger); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.dead.close()) }()
	r.dead.changed = r.wake
	quiet, err := commandline.Control{Folder: f.data}.Answer(r.dead.control())
	if err != nil {
		return err
	}
	defer quiet()
	addr, stop, err := f.startAdmin()
	if err != nil {
		return err
	}
	defer stop()
	ctx = f.Context(ctx)
	r.logger.Info("started", "admin", cmp.Or(addr, "off"), "pid", os.Getpid())
	return r.run(ctx)
}

func (f *relaying) check() error {
	r := &f.reading.Reader
	switch {
	case r.Name == "":
		return errors.New("--from READER is missing")
	case f.to == "":
		return errors.New("--to DESTINATION is missing")
	case f.messages < 1 || f.bytes < 1 || f.lanes < 1 || f.deadMessages < 1 || f.longest < time.Second || f.requestTime <= 0:
		return errors.New("--batch-messages, --batch-bytes, --lanes, --dead-messages and --request-time must be positive, and --retry-time at least 1s")
	case f.dataType != "bytea" && f.dataType != "text" && f.dataType != "jsonb":
		return fmt.Errorf("--data-type is bytea, text or jsonb, not %q", f.dataType)
	case r.Shares < 1 || r.Shares > 1024: // as honed allows
		return fmt.Errorf("--shares is from 1 to 1024, not %d", r.Shares)
	case r.Share < 0 || r.Share >= r.Shares:
		return fmt.Errorf("--share is from 0 to %d, not %d", r.Shares-1, r.Share)
	case f.deadBytes < 0:
		return errors.New("--dead-bytes must not be negative; with 0 only the disk limits the dead-letter log")
	case f.stored && r.Start != gateway.Stored:
		return errors.New("--stored and --start exclude each other")
	}
	return nil
}

// destination returns the sink that --to names.
func (f *relaying) destination(stdout io.Writer) (sink, error) {
	f.parts = whole(f.requestTime)
	if f.to == "stdout" {
		return &printer{to: stdout}, nil
	}
	u, err := url.Parse(f.to)
	if err != nil {
		return nil, commandline.UsageError{Err: errors.New("--to is not a URL")} // the error would show a password
	}
	if _, secret := u.User.Password(); secret {
		return nil, commandline.UsageError{Err: errors.New("--to has a password, which others can see; put it into a file for --password-file or --authorization-file")}
	}
	switch u.Scheme {
	case "http", "https":
		if u.Host == "" {
			return nil, commandline.UsageError{Err: fmt.Errorf("--to %s://HOST/PATH needs a host", u.Scheme)}
		}
		return f.webhook()
	case "postgres", "postgresql":
		return f.postgres()
	case "kafka":
		return f.kafka(u)
	}
	return nil, commandline.UsageError{Err: fmt.Errorf("--to: there is no destination %q; use stdout, https://, http://, postgres:// or kafka://", u.Redacted())}
}

func (f *relaying) postgres() (sink, error) {
	config, err := pgx.ParseConfig(f.to)
	if err != nil {
		return nil, commandline.UsageError{Err: err} // it hides passwords
	}
	secret, err := commandline.ReadSecret("--password-file", f.passwordFile)
	if err != nil {
		return nil, err
	}
	config.Password = cmp.Or(secret, config.Password) // pgx reads that from ~/.pgpass
	r := &f.reading.Reader
	config.RuntimeParams["application_name"] = "honed-relay " + r.Name
	return &postgres{
		config: config, table: strings.Split(f.table, "."), create: f.createTable, dataType: f.dataType,
		reader: r.Name, share: r.Share, shares: r.Shares, anew: r.Anew,
	}, nil
}

func (f *relaying) kafka(u *url.URL) (sink, error) {
	topic := strings.Trim(u.Path, "/")
	if topic == "" || u.Host == "" {
		return nil, commandline.UsageError{Err: errors.New("--to kafka://HOST:PORT,HOST:PORT/TOPIC needs brokers and a topic")}
	}
	if (f.user == "") != (f.passwordFile == "") {
		return nil, commandline.UsageError{Err: errors.New("--to kafka://… needs both --user and --password-file to log in, or neither")}
	}
	k := new(kafka)
	f.parts.messages, f.parts.bytes = f.messages, chunkBytes
	k.options = []kgo.Opt{
		kgo.SeedBrokers(strings.Split(u.Host, ",")...), kgo.DefaultProduceTopic(topic), kgo.ClientID("honed-relay"),
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ManualFlushing(), kgo.MaxBufferedRecords(f.messages + 1),
		kgo.ProducerBatchMaxBytes(16 << 20),
	}
	if f.user != "" {
		secret, err := commandline.ReadSecret("--password-file", f.passwordFile)
		if err != nil {
			return nil, err
		}
		login := scram.Auth{User: f.user, Pass: secret}
		k.options = append(k.options, kgo.SASL(login.AsSha512Mechanism()), kgo.DialTLS())
	}
	return k, nil
}

func (f *relaying) webhook() (sink, error) {
	secret, err := commandline.ReadSecret("--secret-file", f.secretFile)
	authorization, err2 := commandline.ReadSecret("--authorization-file", f.authFile)
	if err = errors.Join(err, err2); err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = f.lanes
	f.parts = parts{f.lanes, max(f.messages/10, 1), f.bytes, f.requestTime}
	return &webhook{
		url: f.to, secret: secret, authorization: authorization,
		client: http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // a POST may become a GET
		},
	}, nil
}
