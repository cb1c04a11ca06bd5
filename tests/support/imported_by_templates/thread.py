"""Its import starts a thread that does not end."""

import threading

threading.Thread(target=threading.Event().wait, daemon=True, name="never ends").start()
