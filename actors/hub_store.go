package actors

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/thawpool/thawpool/actors/store"
	"github.com/thawpool/thawpool/runtime/guest"
)

// The verbs that keep things for later runs.

type onKey struct {
	Key string `json:"key"`
}

func saveMemory(ctx context.Context, r *hubRun, a struct {
	Key      string          `json:"key"`
	Value    json.RawMessage `json:"value"`
	Metadata json.RawMessage `json:"metadata"`
	Version  *int64          `json:"version"`
}) (any, error) {
	if a.Value == nil {
		a.Value = json.RawMessage("null") // encoding/json leaves a RawMessage nil for an absent value only
	}
	info, err := r.hub.cfg.Store.Save(ctx, a.Key, a.Value, store.SaveOptions{Metadata: a.Metadata, Version: a.Version})
	return info, storeError(err)
}

func loadMemory(ctx context.Context, r *hubRun, a onKey) (any, error) {
	m, err := r.hub.cfg.Store.Load(ctx, a.Key)
	return m, storeError(err)
}

func deleteMemory(ctx context.Context, r *hubRun, a onKey) (any, error) {
	there, err := r.hub.cfg.Store.Delete(ctx, a.Key)
	return there, storeError(err)
}

func listMemories(ctx context.Context, r *hubRun, _ nothing) (any, error) {
	infos, err := r.hub.cfg.Store.List(ctx)
	return infos, storeError(err)
}

// memoryInfo is null for a key that is not there.
func memoryInfo(ctx context.Context, r *hubRun, a onKey) (any, error) {
	info, err := r.hub.cfg.Store.Info(ctx, a.Key)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	return info, storeError(err)
}

type onTool struct {
	Name string `json:"name"`
}

// savedTool is a saved tool as the code sees it.
type savedTool struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Code        string `json:"code,omitempty"`
}

func saveTool(ctx context.Context, r *hubRun, a savedTool) (any, error) {
	return nil, storeError(r.hub.cfg.Store.SaveTool(ctx, store.Tool{Name: a.Name, Code: a.Code, Description: a.Description}))
}

func loadTool(ctx context.Context, r *hubRun, a onTool) (any, error) {
	t, err := r.hub.cfg.Store.LoadTool(ctx, a.Name)
	return savedTool{Name: t.Name, Description: t.Description, Code: t.Code}, storeError(err)
}

func deleteTool(ctx context.Context, r *hubRun, a onTool) (any, error) {
	there, err := r.hub.cfg.Store.DeleteTool(ctx, a.Name)
	return there, storeError(err)
}

func listSaved(ctx context.Context, r *hubRun, _ nothing) (any, error) {
	tools, err := r.hub.cfg.Store.Tools(ctx)
	list := make([]savedTool, len(tools))
	for i, t := range tools {
		list[i] = savedTool{Name: t.Name, Description: t.Description}
	}
	return list, storeError(err)
}

// storeError gives the store's kinds of failure the classes that the code knows.
func storeError(err error) error {
	for _, k := range []struct {
		kind  error
		class string
	}{
		{store.ErrNotFound, guest.ErrKey}, {store.ErrConflict, guest.ErrVersionConflict},
		{store.ErrQuota, guest.ErrValue}, {store.ErrInvalid, guest.ErrValue}, {store.ErrDamaged, guest.ErrValue},
	} {
		if errors.Is(err, k.kind) {
			return &guest.CallError{Type: k.class, Message: err.Error()}
		}
	}
	return err
}
