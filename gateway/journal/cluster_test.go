package journal_test

import (
	"context"
	"testing"

	"github.com/hone-go/hone/gateway/cluster"
	"github.com/hone-go/hone/gateway/journal"
)

func TestMain(m *testing.M) {
	journal.OpenCluster = func(ctx context.Context, url, dir string) (journal.Log, error) {
		return cluster.Open(ctx, url, cluster.Options{Replicas: 1, Create: true, Dir: dir})
	}
	journal.Main(m)
}
