// Command kubectl is the kubectl of the release that this repository builds
// against, for machines that have none:
//
//	go run ./examples/kubectl --kubeconfig <file> get widgets --watch
//
// Its test drives the example API server with it.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

func main() {
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err) // prints it and ends with kubectl's own exit code
		os.Exit(1)
	}
}
