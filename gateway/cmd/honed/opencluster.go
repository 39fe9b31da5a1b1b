package main

import (
	"context"
	"fmt"

	"github.com/hone-go/hone/gateway"
	"github.com/hone-go/hone/gateway/journal"
)

func (f *logFlags) openCluster(ctx context.Context, watch *progress) (journal.Log, gateway.Level, error) {
	return nil, 0, fmt.Errorf("clusters are not there yet")
}
