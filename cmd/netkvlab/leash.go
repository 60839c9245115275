package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// leashFileEnv names a file that an agent's starter keeps locked as long as it lives.
const leashFileEnv = "NETKVLAB_LEASH_FILE"

// leashedByFile returns a context that ends when the lock on a file is given up: an
// agent in a container inherits no descriptor that could tell it of its starter's
// end. The goroutine lives as long as the process: nothing but that ends its wait.
func leashedByFile(ctx context.Context, path string) (context.Context, error) {
	if path == "" {
		return ctx, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("leash: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		for errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_SH), unix.EINTR) {
		}
		_ = f.Close()
	}()
	return ctx, nil
}
