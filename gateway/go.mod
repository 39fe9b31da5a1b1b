module github.com/hone-go/hone/gateway

go 1.26.0

require (
	github.com/hone-go/hone v0.0.0
	github.com/hone-go/hone/observe v0.0.0
)

replace (
	github.com/hone-go/hone => ../
	github.com/hone-go/hone/observe => ../observe
)
