package queues

import (
	"cmp"
	"slices"

	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/engine/deploy"
	"github.com/runlot/runlot/internal/server/cloudflare/wire"
)

// consumeWorker makes a script the consumer of a queue: a new version of it, with the code of the live one, which the next
// deployment of the script replaces like any other.
func (s *service) consumeWorker(c *wire.Call, t *target, now *consumer, in *consumerRequest, one *queue.Consumer) error {
	script := cmp.Or(in.ScriptName, in.Script)
	switch {
	case script == "":
		return fault.New(fault.Invalid, "10026", "a consumer of the type %s names its script", typeWorker).WithHint("send script_name")
	case now != nil && (now.Pull || now.script != script):
		return heldBy(t, now, script)
	}
	return s.revise(c, t, script, "consumer of "+t.name+" set through the API", func(m *app.Manifest) error {
		if m.Database != "" && m.Database != t.database {
			return fault.New(fault.Invalid, wire.CodeConsumerSettings, "the script %s has its queues in the database %s, and the queue %s is in %s",
				script, m.Database, t.name, t.database).WithHint("use a queue of the database %s", m.Database)
		}
		if most := queue.LimitsOf(m.Dialect).MaxRetries; one.MaxRetries > most {
			return fault.New(fault.Invalid, wire.CodeConsumerSettings, "max_retries of %d is outside 0 to %d, the range of a script with a runlot.json", one.MaxRetries, most)
		}
		m.Database = t.database
		own := *one
		own.Visibility = 0
		own.HandlerTime = queue.HandlerTime(m.Dialect, one.BatchTimeout)
		m.Consumers = append(without(m.Consumers, t.name), own)
		return nil
	})
}

// removeWorker takes a queue from the script that consumes it, in the same way.
func (s *service) removeWorker(c *wire.Call, t *target, now *consumer) error {
	return s.revise(c, t, now.script, "consumer of "+t.name+" removed through the API", func(m *app.Manifest) error {
		m.Consumers = without(m.Consumers, t.name)
		return nil
	})
}

func without(list []queue.Consumer, queueName string) []queue.Consumer {
	return slices.DeleteFunc(list, func(one queue.Consumer) bool { return one.Queue == queueName })
}

func (s *service) revise(c *wire.Call, t *target, script, message string, change func(m *app.Manifest) error) error {
	if err := c.Token.Allow(access.Deploy, script); err != nil {
		return err
	}
	s.o.Log.Info("a consumer is changed through the API", "script", script, "queue", t.full())
	return s.o.Scripts.Revise(wire.Finished(c), &deploy.Revision{App: script, Author: c.Token.Name, Message: message, Change: change})
}
