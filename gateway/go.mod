module github.com/hone-go/hone/gateway

go 1.26.0

require github.com/hone-go/hone v0.0.0

require golang.org/x/sys v0.49.0 // indirect

replace (
	github.com/hone-go/hone => ../
	github.com/hone-go/hone/observe => ../observe
)
