// Package promise has the tests of what rvfloor promises, over kine: in memory, on SQLite
// and on PostgreSQL, with one kine and with two over one database.
//
//	go test -C examples/kine -v -run Elsewhere ./promise   # how long a LIST takes that follows a write elsewhere
//	go test -C examples/kine -v -run Bursts ./promise      # and on PostgreSQL one that follows many at once
package promise
