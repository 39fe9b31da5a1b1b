package observe

// httpEntries are the additional metrics of an HTTP server.
func httpEntries() []entry {
	one := func(kind Kind, name, panel, help string, v func(r *reading) float64) entry {
		return entry{
			Metric: Metric{Name: name, Kind: kind, Help: help, From: "HTTP", Panel: "hone-server/" + panel},
			read: func(r *reading, give func(float64, ...string)) {
				if r.http != nil {
					give(v(r))
				}
			},
		}
	}
	return []entry{
		one(Counter, "hone_http_fast_requests_total", "HTTP requests", "HTTP requests served on the fast path.",
			func(r *reading) float64 { return float64(r.http.Fast) }),
		one(Counter, "hone_http_loans_total", "HTTP requests", "Times that a connection was lent to net/http, for one or more requests.",
			func(r *reading) float64 { return float64(r.http.Loans) }),
		one(Gauge, "hone_http_open_loans", "Loans to net/http", "Connections that are lent to net/http now.",
			func(r *reading) float64 { return float64(r.http.OpenLoans) }),
		one(Gauge, "hone_http_late_handlers", "Loans to net/http", "Handlers that wait inside http1.Later now, because net/http has their connections.",
			func(r *reading) float64 { return float64(r.http.LateHandlers) }),
		one(Counter, "hone_http2_slow_bodies_total", "HTTP requests", "HTTP/2 streams that ended because their bodies were slower than frame-rate.",
			func(r *reading) float64 { return float64(r.http.SlowBodies) }),
		one(Counter, "hone_http2_closed_windows_total", "HTTP requests", "HTTP/2 streams that ended because their clients took nothing for stall-time.",
			func(r *reading) float64 { return float64(r.http.ClosedWindows) }),
	}
}
