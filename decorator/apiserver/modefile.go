package apiserver

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/util/filesystem"
	"k8s.io/klog/v2"

	"github.com/rvfloor/rvfloor/decorator"
)

// unwatched is how often the mode file is looked at where its folder cannot be watched; upstream's own files have the same.
const unwatched = time.Minute

// modeFile is a file of one word, the mode, which is set whenever the word changes. Between two changes Backends.SetMode
// may set another. A nil modeFile is none.
type modeFile struct {
	path string
	set  func(decorator.Mode) error

	mu    sync.Mutex
	mode  decorator.Mode // the last that it named
	fault *decorator.ErrorStatus
}

// modeFileStatus is what the debug page says of it.
type modeFileStatus struct {
	Path string `json:"path"`
	// Mode is what the file named last. The present mode is another if it was switched by request since.
	Mode decorator.Mode `json:"mode"`
	// Error says why the file names none now.
	Error *decorator.ErrorStatus `json:"error,omitempty"`
}

// read sets the mode if the file names another than before. Its error is what is wrong with the file, and changes no mode.
func (f *modeFile) read(ctx context.Context) error {
	content, err := os.ReadFile(f.path)
	mode := decorator.Mode(strings.TrimSpace(string(content)))
	if err == nil && mode.Validate() != nil {
		err = fmt.Errorf("%s says %.20q", f.path, mode)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		err = fmt.Errorf("--%s: %w: write one of the words %s, %s, %s into it", flagModeFile, err,
			decorator.ModeVerify, decorator.ModeShadow, decorator.ModeOff)
		if f.fault == nil || f.fault.Message != err.Error() {
			f.fault = &decorator.ErrorStatus{Time: time.Now(), Message: err.Error()}
			klog.FromContext(ctx).Error(err, "The mode of verified reads stays as it is")
		}
		return err
	}
	f.fault = nil
	if mode != f.mode {
		f.mode = mode
		_ = f.set(mode) // it is valid, and Options.Validate refuses a file where nothing is wired
		klog.FromContext(ctx).Info("Verified reads were switched", "mode", mode, "file", f.path)
	}
	return nil
}

// follow reads the file whenever something happens in its folder, until ctx ends. A file that is replaced by renaming is
// another file, and one of a ConfigMap is a link through a folder that is replaced so: only the folder stays.
func (f *modeFile) follow(ctx context.Context) {
	filesystem.WatchUntil(ctx, unwatched, filepath.Dir(f.path), func() { _ = f.read(ctx) }, func(err error) {
		klog.FromContext(ctx).Error(err, "The folder of the file cannot be watched, it is read from time to time", "file", f.path, "interval", unwatched)
	})
}

func (f *modeFile) status() *modeFileStatus {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return &modeFileStatus{Path: f.path, Mode: f.mode, Error: f.fault}
}

// followModeFile starts to follow the file, until ctx ends or b is closed.
func (b *Backends) followModeFile(ctx context.Context) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(b.life, cancel)
	b.following.Go(func() {
		defer stop()
		defer cancel()
		b.modeFile.follow(ctx)
	})
}
