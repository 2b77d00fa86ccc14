package wire

import (
	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/engine/deploy"
)

// Bindings describes what a version declares about queues.
func Bindings(m *app.Manifest) ([]client.Producer, []client.Consumer) {
	producers, consumers := make([]client.Producer, 0, len(m.Producers)), make([]client.Consumer, 0, len(m.Consumers))
	for i := range m.Producers {
		producers = append(producers, client.Producer{Binding: m.Producers[i].Binding, Queue: m.Producers[i].Queue})
	}
	for i := range m.Consumers {
		consumers = append(consumers, client.Consumer{Queue: m.Consumers[i].Queue, DeadLetterQueue: m.Consumers[i].DeadLetterQueue})
	}
	return producers, consumers
}

// Version describes a version.
func Version(v *deploy.Version) client.Version {
	out := client.Version{
		ID: v.ID, Number: v.Number, App: v.App, Created: v.Created, Author: v.Author, Message: v.Message, ConfigFile: v.ConfigFile,
		Digest: v.Digest, Live: v.Live, Database: v.Manifest.Database,
	}
	out.Producers, out.Consumers = Bindings(v.Manifest)
	return out
}
