package journal_test

import (
	"context"
	"testing"

	"github.com/hone-go/hone/gateway/cluster"
	"github.com/hone-go/hone/gateway/journal"
)

func TestMain(m *testing.M) {
	journal.OpenCluster = func(ctx context.Context, urls, stream string, replicas int, dir string) (journal.Log, error) {
		return cluster.Open(ctx, urls, cluster.Options{Stream: stream, Replicas: replicas, Create: true, Dir: dir})
	}
	journal.Main(m)
}
