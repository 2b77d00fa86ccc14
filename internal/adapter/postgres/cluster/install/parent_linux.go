package install

import "syscall"

// endWithParent has the kernel end the program when this process dies in whatever way. The signal asks for a fast
// shutdown: open transactions are rolled back and a checkpoint is written, so that the next start has nothing to recover.
func endWithParent(attributes *syscall.SysProcAttr) { attributes.Pdeathsig = syscall.SIGINT }
