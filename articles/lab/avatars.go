package lab

import (
	"context"
	"time"

	"github.com/hone-go/hone/tool/load"
)

// avatarSteps lists the article's steps, first to last.
var avatarSteps = [...]string{drawEach: "article-draw", keepImages: "article-images", keepEncoded: "article-encoded", keepUnlogged: "article-unlogged"}

// avatars is the fifth article.
func avatars(ctx context.Context, b *bench) error {
	names := append(avatarSteps[:len(avatarSteps):len(avatarSteps)], movedStage, "hone-avatar")
	all, end, err := b.startAll(ctx, names)
	if err != nil {
		return err
	}
	defer end()
	laps, err := b.driveAll(ctx, all, quickly(b, 1, 5), "100 connections", func(p *process) (load.Plan, error) {
		return load.Plan{Target: load.HTTP{URL: "http://" + p.addr + "/avatar/a?size=128"}, Conns: quickly(b, 10, 100),
			For: quickly(b, 250*time.Millisecond, 1500*time.Millisecond), Warmup: quickly(b, 20*time.Millisecond, 300*time.Millisecond)}, nil
	})
	if err != nil {
		return err
	}
	b.avatarSteps(laps)
	b.avatarMoved(laps)
	b.avatarOwn(laps)
	return b.avatarProfiles(ctx, all)
}

// avatarProfiles takes the article's profiles, and one of the step after its last.
func (b *bench) avatarProfiles(ctx context.Context, all []*process) error {
	var views [2]profileOf
	for i, p := range []*process{all[keepImages], all[keepUnlogged]} {
		var err error
		views[i], err = b.profile(ctx, p, quickly(b, 150*time.Millisecond, 2*time.Second), "", func(ctx context.Context) error {
			_, err := load.Run(ctx, load.Plan{Target: load.HTTP{URL: "http://" + p.addr + "/avatar/a?size=128"}, Conns: quickly(b, 10, 100), For: time.Minute})
			return err
		})
		if err != nil {
			return err
		}
	}
	images, last := views[0].cpu, views[1].cpu
	encoding := cumShare(images, "image/png.(*Encoder).Encode")
	b.add(one(encoding).row("image cache: encoding PNG, of its CPU", "%", "The article's second profile shows that encoding is what remains. Top functions: "+top(images, 3)+".").as(first(encoding > 50, encoding > 20)))
	own := cumShare(last, nameOf((*portraits).ServeHTTP))
	b.add(one(own).row("no log: the service's own handler, of its CPU", "%", "The article's profiles end before this step. Here the handler is the smaller part, and the rest is net/http, the scheduler and the kernel: the next thing to change is the server. Top functions: "+top(last, 3)+".").
		as(first(own < 50, false)))
	return nil
}

// avatarMoved compares the article's last step on http1 with the same on net/http.
func (b *bench) avatarMoved(laps map[string]lap) {
	std, moved := laps[avatarSteps[keepUnlogged]], laps[movedStage]
	const why = "One change: the article's last step, handler and cache, served by http1. The claim is that the server is where the next gain is."
	more, saved := moved.rate.over(std.rate), std.cpu.over(moved.cpu)
	b.add(moved.rate.row("the same on http1", "requests/s", why).to(more, "the same on net/http").as(better(more)),
		moved.cpu.row("the same on http1, CPU", perRequest, why).to(saved, "less than on net/http").as(better(saved)))
}

// avatarSteps reports the article's rates and the gains between them.
func (b *bench) avatarSteps(laps map[string]lap) {
	const elsewhere = "The article names neither its machine nor the size of the pictures that its load requested: compare the gains below."
	rates := [...]float64{897.54, 1204.01, 22_889.01, 42_849.74}
	for i, what := range [...]string{"drawn for each request", "images cached, encoded for each request", "encoded bytes cached", "the same without a log"} {
		b.add(laps[avatarSteps[i]].rate.row(what, "requests/s", elsewhere).beside(rates[i]))
	}
	for i, step := range [...]struct{ what, why string }{
		{"caching images", "The cache saves parsing the font and drawing; encoding stays. The article's first version also failed requests and panicked under load (one font face for all), which a rate does not show."},
		{"caching the encoded bytes", "The article's insight, and its largest step: image/png allocates and compresses for each request."},
		{"leaving out the log", "Here the log is two lines per request to a file, with one write call and one mutex each. The article's framework logs to standard output, in colour; the article does not say where that goes, and a terminal or a pipe costs more than a file."},
	} {
		gain := laps[avatarSteps[i+1]].rate.over(laps[avatarSteps[i]].rate)
		article := rates[i+1] / rates[i]
		b.add(gain.row("the gain of "+step.what, "× requests/s", step.why).beside(article).as(gained(article, gain)))
	}
	b.add(spread{}.row("another program, the article's reference", "requests/s", "A footnote: a colleague's service did 12,008 requests/s where the article's first version did 898. It was not published, so it is not measured here.").beside(12_007.53))
}

// avatarOwn compares hone's service with the article's last step.
func (b *bench) avatarOwn(laps map[string]lap) {
	own, last := laps["hone-avatar"], laps[avatarSteps[keepUnlogged]]
	const why = "Ours on http1, without a log. The claim: more requests/s than the article's last step. It also sends a strong ETag and security headers and enforces limits, which that step does not."
	more, saved := own.rate.over(last.rate), last.cpu.over(own.cpu)
	b.add(own.rate.row("hone's service", "requests/s", why).to(more, "the article's last step").as(better(more)),
		own.cpu.row("hone's service, CPU", perRequest, why).to(saved, "less than the article's last step").as(better(saved)))
}
