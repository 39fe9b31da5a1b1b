package torture

func messageScenarios() []Scenario { return nil }
