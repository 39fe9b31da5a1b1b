package cluster

import (
	"errors"
	"flag"
)

// AddFlags adds the flags of a command that reads the log.
func (o *Options) AddFlags(flags *flag.FlagSet) {
	flags.StringVar(&o.Stream, "stream", defaultStream, "name of the cluster's stream")
	flags.IntVar(&o.Replicas, "replicas", defaultReplicas, "how many replicas the cluster's stream must have")
	flags.StringVar(&o.Credentials, "nats-credentials", "", "`FILE` of NATS credentials")
	flags.StringVar(&o.NKey, "nats-nkey", "", "`FILE` with the seed of an nkey")
	flags.StringVar(&o.User, "nats-user", "", "user `NAME` at NATS, with --nats-password-file")
	flags.StringVar(&o.PasswordFile, "nats-password-file", "", "`FILE` with the password of --nats-user")
	flags.StringVar(&o.CA, "nats-ca", "", "trust the certificate authorities in this PEM `FILE` for NATS instead of the system's")
	flags.StringVar(&o.Cert, "nats-cert", "", "client certificate for NATS, a PEM `FILE`")
	flags.StringVar(&o.Key, "nats-key", "", "key of --nats-cert, a PEM `FILE`")
}

// CheckFlags refuses flags that contradict each other.
func (o *Options) CheckFlags() error {
	if (o.User == "") != (o.PasswordFile == "") || (o.Cert == "") != (o.Key == "") {
		return errors.New("--nats-user and --nats-password-file, and --nats-cert and --nats-key, must be given together")
	}
	return nil
}
