// Package sides puts the storage that an API server would have for pods side by
// side, as upstream makes it and with rvfloor, over one embedded etcd, for the
// programs that compare the two. Each side has clients, connections and an etcd
// address of its own ([Port]), where what comes in is counted and what its watches
// deliver can be held back. What a [Lab] writes by itself is not counted.
package sides
