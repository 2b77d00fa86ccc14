package checkup

import (
	"context"

	"github.com/runlot/runlot/internal/core/queue"
)

// notices looks whether the mail server lets celld in, where there is one, and whether the settings about notifications make
// sense. It sends nothing: that is for "celld notify test".
func (c *checkup) notices(ctx context.Context) {
	const check = "notifications"
	if err := c.settings.Notices.Check(); err != nil {
		c.fault(check, err)
		return
	}
	ways, err := c.settings.Notices.Ways(c.settings.Operator, c.settings.Version)
	if err != nil {
		c.fault(check, err)
		return
	}
	hooks := 0
	for _, w := range ways {
		if w.Mail == nil {
			hooks++
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, queue.CheckTime)
		err := w.Mail.Verify(ctx)
		cancel()
		if err != nil {
			c.fault("mail server", err)
			continue
		}
		c.addf("mail server", OK, "", "it lets celld in; celld notify test sends a mail")
	}
	if hooks > 0 {
		c.addf("webhooks", OK, "", "%d set up; celld notify test calls them", hooks)
	}
}
