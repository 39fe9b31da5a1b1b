package torture

func crowdScenarios() []Scenario { return nil }
