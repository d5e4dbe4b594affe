package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/internal/sides"
)

// stage is what the scenes play on.
type stage struct {
	lab            *sides.Lab
	stock, rvfloor side
	size           sizes
	status         func(string)

	etcdLog zap.AtomicLevel
	ends    []func() error
}

// side is one of the two storages.
type side struct {
	name  string
	store storage.Interface
	port  *sides.Port
}

const (
	nameStock   = "stock"
	nameRVFloor = "rvfloor"
)

func openStage(ctx context.Context, size sizes, status func(string)) (s *stage, err error) {
	s = &stage{size: size, status: status, etcdLog: zap.NewAtomicLevelAt(zap.WarnLevel)}
	defer func() {
		if err != nil {
			err = fmt.Errorf("quickstart: start: %w", errors.Join(err, s.close()))
		}
	}()
	if s.lab, err = sides.Start(ctx, 2, etcdLogger(s.etcdLog)); err != nil {
		return s, err
	}
	s.ends = append(s.ends, s.lab.Close)
	if err := s.lab.Fill(ctx); err != nil {
		return s, err
	}
	if s.stock, err = s.open(ctx, nameStock, sides.Stock, s.lab.Ports[0]); err != nil {
		return s, err
	}
	s.rvfloor, err = s.open(ctx, nameRVFloor, sides.RVFloor, s.lab.Ports[1])
	return s, err
}

func (s *stage) open(ctx context.Context, name string, kind sides.Kind, port *sides.Port) (side, error) {
	store, end, err := sides.Open(ctx, kind, port)
	if err != nil {
		return side{}, fmt.Errorf("%s: %w", name, err)
	}
	s.ends = append(s.ends, end)
	return side{name: name, store: store, port: port}, nil
}

// close ends what was opened, the last first. Etcd has nothing to say meanwhile but
// that its listeners are closed, as errors, which would be all that is seen of the
// log.
func (s *stage) close() error {
	s.etcdLog.SetLevel(zap.FatalLevel)
	var errs []error
	for i := len(s.ends) - 1; i >= 0; i-- {
		errs = append(errs, s.ends[i]())
	}
	return errors.Join(errs...)
}

// etcdLogger sends etcd's warnings to where the storages' logs go.
func etcdLogger(level zapcore.LevelEnabler) *zap.Logger {
	encoder := zapcore.NewConsoleEncoder(zap.NewDevelopmentEncoderConfig())
	return zap.New(zapcore.NewCore(encoder, zapcore.Lock(os.Stderr), level))
}
