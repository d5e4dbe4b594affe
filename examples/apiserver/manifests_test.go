package main

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// TestManifests wants the Deployment to start the program with flags that it
// has, on the port that the Service and the probes lead to.
func TestManifests(t *testing.T) {
	var deployment appsv1.Deployment
	var service corev1.Service
	read(t, "manifests/apiserver.yaml", map[string]any{"Deployment": &deployment, "Service": &service})

	pod := deployment.Spec.Template
	container := pod.Spec.Containers[0]
	var stderr bytes.Buffer
	c, err := parse(container.Args, &stderr)
	if err == nil {
		err = c.Validate()
	}
	if err != nil || c.Aggregation == nil {
		t.Fatalf("args %q: %v, want a server behind kube-aggregator: %s", container.Args, err, &stderr)
	}
	if !c.Aggregation.BindAddress.IsUnspecified() {
		t.Errorf("it listens on %v, where the Service does not lead", c.Aggregation.BindAddress)
	}
	port := container.Ports[0]
	if int(port.ContainerPort) != c.Port {
		t.Errorf("the container's port is %d, the server's %d", port.ContainerPort, c.Port)
	}
	for name, target := range map[string]string{
		"service":   service.Spec.Ports[0].TargetPort.String(),
		"readiness": container.ReadinessProbe.HTTPGet.Port.String(),
		"liveness":  container.LivenessProbe.HTTPGet.Port.String(),
	} {
		if target != port.Name {
			t.Errorf("%s leads to port %q, want %q", name, target, port.Name)
		}
	}
	for key, want := range service.Spec.Selector {
		if pod.Labels[key] != want {
			t.Errorf("the Service selects %s=%s, the pod has %q", key, want, pod.Labels[key])
		}
	}
	// What it writes is on a volume: the rest of its file system is read-only.
	if !slices.ContainsFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool { return strings.HasPrefix(c.DataDir, m.MountPath+"/") }) {
		t.Errorf("--data-dir %s is on none of the volumes", c.DataDir)
	}
}

// read decodes the documents of a file by kind, and refuses fields that do not exist.
func read(t *testing.T, file string, into map[string]any) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for doc := range bytes.SplitSeq(data, []byte("\n---\n")) {
		var meta metav1.TypeMeta
		if err := yaml.Unmarshal(doc, &meta); err != nil {
			t.Fatal(err)
		}
		if object, ok := into[meta.Kind]; ok {
			if err := yaml.UnmarshalStrict(doc, object); err != nil {
				t.Fatalf("%s in %s: %v", meta.Kind, file, err)
			}
			found++
		}
	}
	if found != len(into) {
		t.Fatalf("%s has %d of %d kinds", file, found, len(into))
	}
}
