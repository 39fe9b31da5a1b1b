package torture

func tlsScenarios() []Scenario { return nil }
