package command

import (
	"strings"

	"github.com/spf13/cobra"
)

// others are flags of wrk, hey, k6, vegeta and oha, with ours, or what to do instead.
var others = map[string]string{
	"--duration": "--for (-d)", "--timelimit": "--for (-d)", "-z": "--for (-d)",
	"--connections": "--conns (-c)", "--concurrency": "--conns (-c)", "--clients": "--conns (-c)", "--vus": "--conns (-c)", "--users": "--conns (-c)", "-u": "--conns (-c)", "--workers": "--conns (-c)",
	"--qps": "--rate, for all connections together", "-q": "--rate, for all connections together", "--rps": "--rate", "-R": "--rate", "-r": "--rate",
	"--requests": "--count (-n)", "--iterations": "--count (-n)", "--total": "--count (-n)", "-i": "--count (-n)",
	"--stages": "--schedule stages:…", "--threads": "none, as it uses all CPUs (GOMAXPROCS)", "-t": "none, as it uses all CPUs (GOMAXPROCS)",
	"--latency": "none, as the percentiles are always shown", "--script": "--scenario (-f)", "-s": "--scenario (-f)", "--targets": "--scenario (-f)",
	"-m": "--method (-X)", "-D": "--body @FILE", "--data-raw": "--body", "--data-binary": "--body @FILE", "-T": "--header (-H) 'Content-Type: …'", "-a": "--basic-file", "--auth": "--basic-file",
	"--disable-keepalive": "--churn", "-k": "--insecure", "--thresholds": "--expect", "--summary-export": "--json -o", "--format": "--json", "--url": "none, give the target alone",
}

// othersWord returns what another program's flag is called here; empty: nothing is known that cmd has.
func othersWord(cmd *cobra.Command, flag string) string {
	ours := others[flag]
	name, _, _ := strings.Cut(strings.TrimPrefix(ours, "--"), " ")
	if strings.HasPrefix(ours, "--") && cmd.Flags().Lookup(strings.Trim(name, ",")) == nil || cmd.Flags().Lookup("conns") == nil {
		return ""
	}
	return ours
}

// meant returns the long flag that a short one with its value was meant as, as in -duration; empty: none.
func meant(cmd *cobra.Command, short, value string) string {
	long := "--" + short + value
	if ours := othersWord(cmd, long); ours != "" {
		return ours
	}
	if short != "" && cmd.Flags().Lookup(short+value) != nil {
		return long
	}
	return ""
}
