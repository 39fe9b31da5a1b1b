package torture

func socketScenarios() []Scenario { return nil }
