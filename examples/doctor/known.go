package main

import "fmt"

// warnings returns what is known of etcds that say they are of these versions, and cannot
// be seen on an etcd that is in use.
func warnings(versions []string) (all []string) {
	for _, version := range versions {
		if losesDeletions(version) {
			all = append(all, "etcd "+version+" can lose a deletion at whose revision it is compacted, to a watch that goes on there "+
				"(etcd#18089; fixed in 3.4.34 and 3.5.16). Caches with rvfloor notice and fill anew; other watches do not")
		}
	}
	return all
}

// losesDeletions reports whether an etcd of this version has etcd#18089. To try it one would
// have to compact.
func losesDeletions(version string) bool {
	var major, minor, patch int
	if _, err := fmt.Sscanf(version, "%d.%d.%d", &major, &minor, &patch); err != nil {
		return false
	}
	switch {
	case major != 3:
		return false
	case minor == 5:
		return patch < 16
	case minor == 4:
		return patch < 34
	}
	return minor < 4
}
