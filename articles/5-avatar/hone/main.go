// Command hone is hone's avatar service in place of the article's handler: initials of any script, ETags,
// limits.
package main

import (
	"log"

	"github.com/hone-go/hone/articles/5-avatar/avatar"
	"github.com/hone-go/hone/articles/stage"
	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/http1"
)

func main() {
	fonts, err := avatar.OpenFonts()
	if err != nil {
		log.Fatal(err)
	}
	s := &avatar.Service{Fonts: fonts}
	on := &http1.Server{Handler: s}
	stage.Run(on.Serve, func() engine.Stats { return on.Stats().Stats })
}
