package server

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// writeKubeconfig writes how config reaches the server to a file, for kubectl:
// into dir, or where that is empty into a temporary folder that remove removes.
// Only the owner can read it. Each start has a new token, so the file of an
// earlier one is overwritten.
func writeKubeconfig(dir string, config *rest.Config) (file string, remove func() error, err error) {
	remove = func() error { return nil }
	if dir == "" {
		if dir, err = os.MkdirTemp("", "rvfloor-apiserver-"); err != nil {
			return "", nil, fmt.Errorf("kubeconfig: %w", err)
		}
		remove = func() error { return os.RemoveAll(dir) }
	}
	const name = "example"
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters[name] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	kubeconfig.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: config.BearerToken}
	kubeconfig.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name, Namespace: "default"}
	kubeconfig.CurrentContext = name
	file = filepath.Join(dir, "kubeconfig")
	if err := clientcmd.WriteToFile(*kubeconfig, file); err != nil {
		return "", nil, errors.Join(fmt.Errorf("kubeconfig: %w", err), remove())
	}
	return file, remove, nil
}
