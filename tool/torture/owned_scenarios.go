package torture

func ownedScenarios() []Scenario { return nil }
