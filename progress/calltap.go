package progress

import (
	"context"

	"google.golang.org/grpc/metadata"
)

// CallTap is a Tap that hears, too, when the context of its watch goes into a gRPC call. Where
// Opened is not called after that, the watch is one of an etcd client without a Watcher: it may
// share its stream, on which progress can overtake events.
type CallTap interface {
	Tap
	// Called may be called more than once, and by any goroutine.
	Called()
}

// tapContext is a context with a Tap.
type tapContext struct {
	context.Context
	tap Tap
}

// Value is context.Context. A gRPC call begins with the outgoing metadata of its context, which
// clientv3 looks at even before: a watch is on the stream of those with the same.
func (c tapContext) Value(key any) any {
	switch key {
	case tapKey{}:
		return c.tap
	case metadataKey:
		if tap, ok := c.tap.(CallTap); ok {
			tap.Called()
		}
	}
	return c.Context.Value(key)
}

// metadataKey is the context key of outgoing metadata, which gRPC does not export.
var metadataKey = func() any {
	var looked keyOf
	_, _ = metadata.FromOutgoingContext(&looked)
	return looked.key
}()

// keyOf is a context that keeps the key it was asked for.
type keyOf struct {
	context.Context
	key any
}

func (k *keyOf) Value(key any) any {
	k.key = key
	return nil
}
