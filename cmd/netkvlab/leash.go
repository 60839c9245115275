package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// leashFileEnv names a file that the process that started an agent keeps locked until it ends.
const leashFileEnv = "NETKVLAB_LEASH_FILE"

// leashedByFile returns a context that ends when the lock on a file is released. An agent in a
// container inherits no descriptor that would show the end of the process that started it. The
// goroutine lives as long as the process, since its wait cannot be cancelled.
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
