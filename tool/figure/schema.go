package figure

// The schemas of what hone prints and stores as JSON. Fields may join; when one leaves or means something
// else, the number grows. A test of cmd/hone lists the fields of each.
const (
	SchemaBench   = "hone.bench/1"   // hone bench
	SchemaCompare = "hone.compare/2" // hone compare
	SchemaDemo    = "hone.demo/1"    // hone demo
	SchemaDoctor  = "hone.doctor/1"  // hone doctor
	SchemaHistory = "hone.history/1" // hone history
	SchemaKnee    = "hone.knee/2"    // hone knee
	SchemaLoad    = "hone.load/1"    // hone load
	SchemaNoise   = "hone.noise/3"   // hone bench --against-self
	SchemaPage    = "hone.page/1"    // what a live page and a report show
	SchemaProfile = "hone.profile/1" // hone profile
	SchemaRuns    = "hone.runs/2"    // hone run list
	SchemaShown   = "hone.run/1"     // hone run show
	SchemaStore   = "hone.store/1"   // run.json of a stored run
	SchemaStored  = "hone.run/3"     // the run itself
	SchemaTorture = "hone.torture/2" // hone torture
)
