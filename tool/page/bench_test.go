package page

import (
	"bufio"
	"bytes"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/hone-go/hone/tool/load"
)

// BenchmarkSecond measures Load for one second of a load, without readers.
func BenchmarkSecond(b *testing.B) {
	h := hdrhistogram.New(1, time.Hour.Nanoseconds(), 3)
	for i := range int64(50_000) {
		h.RecordValue(100_000 + i*i%900_000)
	}
	h.RecordValue(40_000_000)
	p := &Page{}
	defer p.Close()
	share := 0.3
	b.ReportAllocs()
	for b.Loop() {
		p.Load(Second{Progress: load.Progress{Phase: load.Measuring, Rate: 50_000, Conns: 100, CPUShare: &share, Latency: h}})
	}
}

// BenchmarkReader measures one reader of the stream per second of a load, including its
// end of the connection.
func BenchmarkReader(b *testing.B) {
	h := hdrhistogram.New(1, time.Hour.Nanoseconds(), 3)
	for i := range int64(50_000) {
		h.RecordValue(100_000 + i*i%900_000)
	}
	for _, readers := range []int{0, 1} {
		b.Run(strconv.Itoa(readers), func(b *testing.B) {
			p := &Page{}
			server := httptest.NewServer(p.Handler())
			defer server.Close()
			defer p.Close()
			told := make(chan struct{}, 1)
			if readers > 0 {
				response, err := http.Get(server.URL + "/events")
				if err != nil {
					b.Fatal(err)
				}
				defer response.Body.Close()
				go func() {
					lines := bufio.NewReaderSize(response.Body, 1<<16)
					for {
						line, err := lines.ReadSlice('\n')
						if err != nil {
							return
						}
						if bytes.HasPrefix(line, []byte("event: state")) {
							told <- struct{}{}
						}
					}
				}()
				<-told
			}
			for b.Loop() {
				p.Load(Second{Progress: load.Progress{Phase: load.Measuring, Rate: 50_000, Latency: h}})
				if readers > 0 {
					<-told
				}
			}
		})
	}
}
