package torture

func httpScenarios() []Scenario { return nil }
