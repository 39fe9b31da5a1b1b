package lab

import (
	"bytes"
	"maps"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/tool/demo"
)

// rungNames lists the article's steps, first to last.
func rungNames() []string {
	names := demo.Names()
	for i, name := range names {
		names[i] = "article-" + name
	}
	return names
}

// ownServer is hone's server on one engine, with the same wire format.
func ownServer(e engine.Engine, handler framed.HandlerFunc) func() (*stage, error) {
	return func() (*stage, error) {
		server := &framed.Server{Handler: handler, Engine: e, Limits: engine.Limits{Conns: -1}}
		return &stage{serve: server.Serve, stop: func() { server.Close() }}, nil
	}
}

func acknowledge(_ framed.Call, dst, _ []byte) ([]byte, error) { return dst, nil }

func upper(_ framed.Call, dst, req []byte) ([]byte, error) {
	return append(dst, bytes.ToUpper(req)...), nil
}

// ownName returns the name of the stage that runs hone's server on an engine.
func ownName(e engine.Engine) string { return "hone-" + e.Name() }

func ladderStages() map[string]func() (*stage, error) {
	usual := engine.Engine{}
	all := map[string]func() (*stage, error){ownName(usual): ownServer(usual, acknowledge)}
	for i, name := range demo.Names() {
		all[rungNames()[i]] = func() (*stage, error) {
			s, err := demo.NewStep(name)
			return &stage{serve: s.Serve, stop: s.Close}, err
		}
	}
	return all
}

func idleStages() map[string]func() (*stage, error) {
	all := map[string]func() (*stage, error){"article-epoll": epollStage}
	maps.Copy(all, ladderStages())
	return all
}
