package load

import (
	"context"
	"encoding/json"
	"os"
	"strconv"
	"time"

	"github.com/hone-go/hone/tool/load/codec"
)

const pageLength = 600

// loadAsAsked is the generator in BenchmarkWrkAgainstNginx, in a separate process.
func loadAsAsked() error {
	conns, err := strconv.Atoi(os.Getenv("HONE_TEST_CONNS"))
	if err != nil {
		return err
	}
	window, err := time.ParseDuration(os.Getenv("HONE_TEST_FOR"))
	if err != nil {
		return err
	}
	r, err := Run(context.Background(), Plan{Target: codec.HTTP{URL: os.Getenv("HONE_TEST_URL"), Length: pageLength}, Conns: conns, Warmup: -1, For: window})
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}
