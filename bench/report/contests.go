package report

// The scenarios that are more than a name in a list.
const (
	rateScenario = "rate"
	wrkScenario  = "wrk"
)

// Tables are those of the comparison that the run's schema names.
func (p *Peers) Tables() []Table {
	table := func(name string, columns ...column) Table {
		return Table{name, func() string { return p.table(columns) }}
	}
	matrix := func(name string, of func(scenario string) cell, scenarios ...string) Table {
		var columns []column
		for _, scenario := range scenarios {
			columns = append(columns, column{scenario, of(scenario)})
		}
		return table(name, columns...)
	}
	facts := Table{"run", p.facts}
	cpu := func(scenario string) cell { return p.figure(scenario, cpuOf) }
	rate := func(scenario string) cell {
		return p.figure(scenario, func(s Sample) *float64 { return scaled(s.Rate, 1e-3) })
	}
	memory := func(scenario string) cell {
		return p.figure(scenario, func(s Sample) *float64 { return s.PerConn })
	}
	switch p.Schema {
	case HTTPSchema:
		scenarios := []string{"hello", "hello-256", "2KiB", "pipelined", "browser", "TLS", "picture", rateScenario}
		return []Table{
			matrix("cpu", cpu, scenarios...),
			matrix("nethttp", p.to("net/http"), append(scenarios, wrkScenario)...),
			matrix("fasthttp", p.to("fasthttp"), append(scenarios, wrkScenario)...),
			matrix("rates", rate, scenarios...),
			table("other",
				column{"calls", p.figure("calls", func(s Sample) *float64 { return s.Calls })},
				column{"wrk", cpu(wrkScenario)},
				column{"idle-15k", memory("idle-15k")},
				column{"lent-15k", memory("lent-15k")},
			),
			facts,
		}
	case WSSchema:
		scenarios := []string{"100x1", "2000x1", "100x16"}
		push := func(scenario string, of func(*Push) *float64) cell {
			return p.figure(scenario, func(s Sample) *float64 {
				if s.Push == nil {
					return nil
				}
				return of(s.Push)
			})
		}
		return []Table{
			matrix("cpu", cpu, scenarios...),
			matrix("gorilla", p.to("gorilla"), scenarios...),
			matrix("best", p.to(""), scenarios...),
			matrix("rates", rate, scenarios...),
			table("other",
				column{"idle bytes", memory("idle-15k")},
				column{"instructions", p.figure("instructions", func(s Sample) *float64 { return s.UserInstructions })},
				column{"of the kernel", p.figure("instructions", func(s Sample) *float64 { return s.KernelInstructions })},
			),
			table("push",
				column{"CPU µs", push("push", func(f *Push) *float64 { return f.CPU })},
				column{"user µs", push("push", func(f *Push) *float64 { return f.User })},
				column{"peak MiB", push("push", func(f *Push) *float64 { return mebibytes(f.Peak) })},
				column{"p99 µs alone", push("push", func(f *Push) *float64 { return f.Alone })},
				column{"p99 µs meanwhile", push("push", func(f *Push) *float64 { return f.During })},
			),
			table("deaf",
				column{"closed", push("deaf", func(f *Push) *float64 { return new(float64(f.Closed)) })},
				column{"after s", push("deaf", func(f *Push) *float64 { return f.ClosedAfter })},
				column{"memory grown by MiB", push("deaf", func(f *Push) *float64 { return mebibytes(f.Grown) })},
			),
			facts,
		}
	}
	scenarios := []string{"A", "A2", "B", "C", "O", "E"}
	times := func(name, scenario string) Table {
		return table(name,
			column{"p50 µs", p.figure(scenario, func(s Sample) *float64 { return s.P50 })},
			column{"p99 µs", p.figure(scenario, func(s Sample) *float64 { return s.P99 })},
			column{"p99.9 µs", p.figure(scenario, func(s Sample) *float64 { return s.P999 })},
			column{"CPU µs/request", cpu(scenario)},
		)
	}
	return []Table{
		matrix("cpu", cpu, scenarios...),
		matrix("ratios", p.to(""), scenarios...),
		matrix("gnet", p.to("gnet"), scenarios...),
		matrix("rates", rate, scenarios...),
		times("tails", "O"),
		matrix("memory", memory, "E", "idle-1k", "idle-5k", "idle-15k"),
		times("slow", "S"),
		facts,
	}
}

func scaled(v *float64, by float64) *float64 {
	if v == nil {
		return nil
	}
	return new(*v * by)
}

func mebibytes(n int64) *float64 { return new(float64(n) / (1 << 20)) }
