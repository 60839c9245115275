package main

import (
	"os"
	"os/signal"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Not parallel: signals belong to the whole process.
func TestSignalsOfExecAreTheCommands(t *testing.T) {
	ctx, end := interruptible(os.Stderr)
	defer end()
	signals, stop := commandsSignals()
	defer stop()
	require.NoError(t, unix.Kill(os.Getpid(), unix.SIGTERM))
	assert.Equal(t, unix.SIGTERM, <-signals)
	assert.NoError(t, ctx.Err(), "exec itself goes on until its command ends")
}

func TestWhatWasIgnoredStaysIgnored(t *testing.T) {
	signal.Ignore(unix.SIGHUP) // as nohup does
	defer signal.Reset(unix.SIGHUP)
	ctx, end := interruptible(os.Stderr)
	defer end()
	signals, stop := commandsSignals()
	defer stop()
	for _, s := range []unix.Signal{unix.SIGHUP, unix.SIGTERM} {
		require.NoError(t, unix.Kill(os.Getpid(), s))
	}
	assert.Equal(t, unix.SIGTERM, <-signals, "the first that comes through")
	assert.NoError(t, ctx.Err())
}
