package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestAgentOnALeashOfAFileEndsWithItsStarter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leash")
	held, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, unix.Flock(int(held.Fd()), unix.LOCK_EX))
	ctx, err := leashedByFile(t.Context(), path)
	require.NoError(t, err)
	select {
	case <-ctx.Done():
		t.Fatal("it ended while its starter lives")
	case <-time.After(20 * time.Millisecond):
	}
	require.NoError(t, held.Close()) // as the kernel does when the process dies
	select {
	case <-ctx.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("it outlives its starter")
	}
}

func TestAgentWithoutALeashOrWithALostOne(t *testing.T) {
	ctx, err := leashedByFile(t.Context(), "")
	require.NoError(t, err)
	assert.NoError(t, ctx.Err())
	_, err = leashedByFile(t.Context(), filepath.Join(t.TempDir(), "none"))
	assert.ErrorContains(t, err, "leash: open")
}
