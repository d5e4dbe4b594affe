module github.com/rvfloor/rvfloor/examples/apiserver

go 1.26.0

require (
	github.com/rvfloor/rvfloor v0.0.0
	k8s.io/apiextensions-apiserver v0.37.2
)

replace github.com/rvfloor/rvfloor => ../..
