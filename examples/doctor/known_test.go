package main

import (
	"strings"
	"testing"
)

// TestKnownFaults: a version that loses deletions is named in the table, and others are not.
func TestKnownFaults(t *testing.T) {
	for version, want := range map[string]bool{
		"3.3.27": true, "3.4.23": true, "3.4.33": true, "3.4.34": false, "3.5.0": true, "3.5.14": true, "3.5.15": true, "3.5.15+k3s1": true,
		"3.5.16": false, "3.5.35": false, "3.6.0": false, "3.7.3": false, "4.0.0": false, "unknown": false, "": false,
	} {
		d := diagnosis{Claims: []string{"3.7.3", version}, Warnings: warnings([]string{"3.7.3", version})}
		var table strings.Builder
		if err := d.table(&table); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(table.String(), "etcd "+version+" can lose a deletion"); got != want {
			t.Errorf("%q is warned of: %t, want %t\n%s", version, got, want, table.String())
		}
	}
}
