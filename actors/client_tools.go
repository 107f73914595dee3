package actors

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/thawpool/thawpool/actors/catalog"
	"github.com/thawpool/thawpool/actors/upstream"
)

// changed has the tools read again soon.
func (a *clientActor) changed() {
	if a.refreshing {
		a.again = true
		return
	}
	a.refreshing = true
	a.after(refreshDelay, refreshTools{a.own()})
}

func (a *clientActor) onRefresh() {
	a.again = false
	if len(a.links) == 0 {
		a.refreshing = false
		return
	}
	own, srv, conn, log := a.own(), a.srv, a.links[0].conn, a.log
	limit := a.terms.listMax
	a.out.pipe(a.life, a.self, func(ctx context.Context) any {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		if err := takeTools(ctx, srv, conn); err != nil {
			log.Warn().Str(keyServer, srv.def.Name).Str(keyEvent, "changed tools are not known").Err(err).Send()
		}
		return toolsRefreshed{own}
	}, func(error) any { return toolsRefreshed{own} })
}

func (a *clientActor) onRefreshed() {
	a.refreshing = false
	if a.again {
		a.changed()
	}
}

func takeTools(ctx context.Context, srv *serverState, conn *upstream.Conn) error {
	tools, note, err := conn.ListTools(ctx)
	if err != nil {
		return err
	}
	srv.listed(srv.def, listingOf(conn, tools))
	srv.publish(func(s *ClientStatus) { s.Error = note })
	return nil
}

func listingOf(conn *upstream.Conn, tools []json.RawMessage) catalog.Listing {
	info := conn.Info()
	return catalog.Listing{
		Version: strings.TrimSpace(info.Name + " " + info.Version), Instructions: info.Instructions, Tools: tools,
	}
}
