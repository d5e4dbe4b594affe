package apiserver

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/rvfloor/rvfloor/decorator"
)

// followed is the file's folder watched: the poll beside it is slower than a test's patience.
const followed = "k8s.io/apiserver/pkg/util/filesystem.WatchUntil"

// A running server follows the file however it is written, and against requests the last change wins.
func TestModeFileOverHTTP(t *testing.T) {
	etcd := startEtcd(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "mode")
	write := func(path, text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o600)) }
	rename := func(text string) {
		write(filepath.Join(dir, "new"), text)
		require.NoError(t, os.Rename(filepath.Join(dir, "new"), file))
	}
	write(file, "shadow")
	s := serve(t, "--etcd-servers="+etcd.Endpoints()[0], "--verified-reads-mode-file="+file).ready(t)
	become := func(mode decorator.Mode) {
		t.Helper()
		assert.Eventually(t, func() bool { b := s.debug(t); return b.Mode == mode && b.Backends[0].Mode == mode }, wait, tick, mode)
		assert.Equal(t, &modeFileStatus{Path: file, Mode: mode}, s.debug(t).ModeFile)
	}
	// stays is the mode after the file was seen to be wrong.
	stays := func(mode decorator.Mode, says string) {
		t.Helper()
		assert.Eventually(t, func() bool { return s.debug(t).ModeFile.Error != nil }, wait, tick, says)
		assert.Contains(t, s.debug(t).ModeFile.Error.Message, says)
		assert.Equal(t, mode, s.debug(t).Mode)
		page := s.do(t, "GET", DebugPath, "", "Accept", "text/html").body
		assert.Contains(t, page, "It names none now")
	}
	request := func(mode string) {
		t.Helper()
		require.Equal(t, http.StatusOK, s.do(t, "PUT", DebugPath, `{"mode":"`+mode+`"}`).code)
	}
	awaitGoroutines(t, followed, 1)

	become(decorator.ModeShadow)
	rename("off\n")
	become(decorator.ModeOff)
	rename("verify")
	become(decorator.ModeVerify)
	write(file, "  shadow\r\n")
	become(decorator.ModeShadow)

	request("off")
	write(filepath.Join(dir, "other"), "verify") // something happens in the folder, nothing to the word
	rename("of")
	stays(decorator.ModeOff, `says "of": write one of the words verify, shadow, off`)
	rename("shadow")
	assert.Eventually(t, func() bool { return s.debug(t).ModeFile.Error == nil }, wait, tick)
	assert.Equal(t, decorator.ModeOff, s.debug(t).Mode, "the word is the one of before, the request came after it")
	rename("verify")
	become(decorator.ModeVerify)
	require.NoError(t, os.Remove(file))
	stays(decorator.ModeVerify, "no such file")
	rename("off")
	become(decorator.ModeOff)

	s.stop()
	awaitGoroutines(t, followed, 0)
}

// The kubelet replaces the files of a ConfigMap by renaming a link, over which each of them is reached.
func TestModeFileOfConfigMap(t *testing.T) {
	etcd := startEtcd(t)
	dir := t.TempDir()
	mount := func(version, mode string) {
		require.NoError(t, os.Mkdir(filepath.Join(dir, version), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, version, "mode"), []byte(mode), 0o600))
		require.NoError(t, os.Symlink(version, filepath.Join(dir, "..data_tmp")))
		require.NoError(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
	}
	mount("..1", "verify")
	require.NoError(t, os.Symlink(filepath.Join("..data", "mode"), filepath.Join(dir, "mode")))
	s := serve(t, "--etcd-servers="+etcd.Endpoints()[0], "--verified-reads-mode-file="+filepath.Join(dir, "mode")).ready(t)
	awaitGoroutines(t, followed, 1)
	for i, mode := range []decorator.Mode{decorator.ModeOff, decorator.ModeShadow, decorator.ModeVerify} {
		mount(fmt.Sprintf("..%d", i+2), string(mode))
		assert.Eventually(t, func() bool { return s.debug(t).Mode == mode }, wait, tick, mode)
	}
}

// What is wrong with the file is logged once, with its name and the words that it may hold.
func TestModeFileIsLogged(t *testing.T) {
	var log bytes.Buffer
	ctx := klog.NewContext(t.Context(), textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&log))))
	f := &modeFile{path: filepath.Join(t.TempDir(), "mode"), set: newBackends(t, Config{}).SetMode}
	logged := func(text string) string {
		require.NoError(t, os.WriteFile(f.path, []byte(text), 0o600))
		log.Reset()
		_ = f.read(ctx)
		return log.String()
	}
	assert.Contains(t, logged("off"), `mode="off"`)
	assert.Empty(t, logged("off"))
	wrong := logged("false")
	assert.Contains(t, wrong, f.path)
	for _, word := range []string{"false", "verify, shadow, off"} {
		assert.Contains(t, wrong, word)
	}
	assert.Empty(t, logged("false"))
	assert.Empty(t, logged("off"))
	assert.Contains(t, logged("shadow"), `mode="shadow"`)
	assert.NotContains(t, logged(string(bytes.Repeat([]byte("x"), 1<<20))), "xxxxxxxxxxxxxxxxxxxxx", "not all of it")
}

// The file is let go of when the server ends, or Backends.
func TestModeFileIsLetGo(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mode")
	require.NoError(t, os.WriteFile(file, []byte("off"), 0o600))
	b := newBackends(t, Config{})
	b.modeFile = &modeFile{path: file, set: b.SetMode}
	ctx, end := context.WithCancel(t.Context())
	b.followModeFile(ctx)
	awaitGoroutines(t, followed, 1)
	end()
	awaitGoroutines(t, followed, 0)
	b.followModeFile(t.Context())
	awaitGoroutines(t, followed, 1)
	require.NoError(t, b.Close())
	awaitGoroutines(t, followed, 0)
	b.followModeFile(t.Context())
	awaitGoroutines(t, followed, 0)
}
